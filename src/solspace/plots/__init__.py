"""Pictures: functions of an object, or of numbers, and Matplotlib axes that return the axes; nothing is computed here.

Objects are drawn by their `.plot()` methods, on new axes in the style of `solspace.plots.style`, or on given axes in the current
one. The methods, the command line and `solspace reproduce` share the functions in `theory`, `diagrams`, `samples` and `sweeps`.

>>> import solspace as ss
>>> from solspace.plots.style import DOUBLE, panels, style
>>> p = ss.predict(ss.Target(), alpha=0.5)
>>> with style(8):
...     figure, (left, right) = panels(2, width=DOUBLE / 2, height=2.4)
...     ax = p.plot("free entropy", left, times=[0, 1, 2])
...     ax = p.plot("stabilities", right, color="k")
>>> ax.get_xlabel()
'stability $s$'
"""

from __future__ import annotations

from solspace.plots.samples import overlap_bars, stability_bars

__all__ = ["overlap_bars", "stability_bars"]
