"""What `.plot()` of each object draws: a picture by its name, on the axes that are given or on new ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from solspace.plots import diagrams, reports, samples, sweeps, theory
from solspace.plots.style import drawing
from solspace.system.names import unknown

if TYPE_CHECKING:
    from solspace.diagnostics.report import Report
    from solspace.samples import Samples
    from solspace.theory.phases import PhaseDiagram, SamplingMap
    from solspace.theory.prediction import Prediction
    from solspace.theory.thresholds import Thresholds


def plot_prediction(prediction: Prediction, kind: str, ax: Any, **style: Any) -> Any:
    """Draw one picture of a prediction, or all of them."""
    if kind == "all":
        _plain(style)
        with drawing(ax, len(theory.KINDS)) as axes:
            return theory.prediction_panels(prediction, axes)
    if kind not in theory.KINDS:
        raise unknown("kind of picture", kind, ("all", *theory.KINDS))
    with drawing(ax) as one:
        theory.KINDS[kind](prediction, one, **style)
        if ax is None:
            one.set_title(f"{prediction.target}\nα = {prediction.alpha:g}{theory.flags(prediction)}", fontsize="small")
        return one


def plot_samples(
    drawn: Samples, kind: str, ax: Any, prediction: Prediction | None, reference: Samples | None, **style: Any
) -> Any:
    """Draw one picture of samples, or all of them, with theory or other samples beside them."""
    there = samples.sample_kinds(drawn)
    if len(drawn) == 0:
        raise ValueError("there is no sample to draw.")
    if reference is not None and (why := drawn.differs(reference)):
        raise ValueError(f"reference must be samples of the same problem and target, but {why}.")
    if kind == "all":
        _plain(style)
        with drawing(ax, len(there)) as axes:
            return samples.sample_panels(drawn, axes, prediction, reference)
    if kind not in there:
        raise unknown("kind of picture", kind, ("all", *there))
    with drawing(ax) as one:
        return samples.sample_panel(drawn, one, kind, prediction, reference, **style)


def plot_diagram(diagram: PhaseDiagram, ax: Any, thresholds: Thresholds | None, **style: Any) -> Any:
    """Draw a t–α diagram."""
    with drawing(ax) as one:
        return diagrams.phase_diagram(diagram, one, thresholds, "below" if ax is None else "upper left", **style)


def plot_map(found: SamplingMap, ax: Any, **style: Any) -> Any:
    """Draw a map of thresholds."""
    with drawing(ax) as one:
        return diagrams.sampling_map(found, one, **style)


def plot_report(report: Report, ax: Any, **style: Any) -> Any:
    """Draw what a verdict is made of."""
    with drawing(ax) as one:
        return reports.report_deviations(report, one, **style)


def plot_sweep(points: sweeps.Points, value: str, x: str, series: Sequence[str], ax: Any, **style: Any) -> Any:
    """Draw a number of a sweep against what differs in it."""
    with drawing(ax) as one:
        return sweeps.sweep_curves(points, one, value, x, series, **style)


def _plain(style: dict[str, Any]) -> None:
    if style:
        raise ValueError(f"several pictures have no style in common; give a kind with {', '.join(style)}.")
