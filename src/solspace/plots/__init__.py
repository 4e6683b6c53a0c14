"""Pictures: functions of an object, or of numbers, and of Matplotlib axes; nothing is computed here.

Objects are drawn by their `.plot()` methods, on new axes in the style of `solspace.plots.style`, or on given axes in the current
one. The methods, the command line and `solspace reproduce` share the functions in `theory`, `diagrams`, `samples` and `sweeps`.

>>> import solspace as ss
>>> ss.predict(ss.Target(), alpha=0.5).plot("stabilities", color="k").get_xlabel()
'stability $s$'
"""

from __future__ import annotations

from solspace.plots.samples import overlap_bars, stability_bars

__all__ = ["overlap_bars", "stability_bars"]
