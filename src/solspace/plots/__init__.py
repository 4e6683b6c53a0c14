"""Pictures: functions of an object, or of numbers, and Matplotlib axes, that return the axes; nothing is computed here.

The objects' own `.plot()` methods, the command line and `solspace reproduce` draw with these functions. They draw on any
axes, in the style that is set: ours is `solspace.plots.style.style`, which `.plot()` uses for figures that it makes.

>>> import solspace as ss
>>> from solspace.plots.style import DOUBLE, panels, style
>>> p = ss.predict(ss.Target(), alpha=0.5)
>>> with style(8):
...     figure, (left, right) = panels(2, width=DOUBLE / 2, height=2.4)
...     ax = ss.plots.free_entropy(p, left, times=[0, 1, 2])
...     ax = ss.plots.stability_density(p, right, color="k")
>>> ax.get_xlabel()
'stability $s$'
"""

from __future__ import annotations

from solspace.plots.diagrams import (
    alpha_kappa,
    edge,
    entropy_curves,
    mark_loads,
    phase_diagram,
    regimes,
    sampling_map,
    temperature_lines,
)
from solspace.plots.reports import report_deviations
from solspace.plots.samples import (
    energy_run,
    overlap_bars,
    overlap_histogram,
    overlap_outlines,
    overlap_run,
    sample_kinds,
    sample_panel,
    sample_panels,
    stability_bars,
    stability_histogram,
)
from solspace.plots.sweeps import curves, self_and_cross, stabilities, success, sweep_curves, threshold
from solspace.plots.theory import free_entropy, localization_curve, overlap_path, prediction_panels, stability_density

__all__ = [
    "alpha_kappa",
    "curves",
    "edge",
    "energy_run",
    "entropy_curves",
    "free_entropy",
    "localization_curve",
    "mark_loads",
    "overlap_bars",
    "overlap_histogram",
    "overlap_outlines",
    "overlap_path",
    "overlap_run",
    "phase_diagram",
    "prediction_panels",
    "regimes",
    "report_deviations",
    "sample_kinds",
    "sample_panel",
    "sample_panels",
    "sampling_map",
    "self_and_cross",
    "stabilities",
    "stability_bars",
    "stability_density",
    "stability_histogram",
    "success",
    "sweep_curves",
    "temperature_lines",
    "threshold",
]
