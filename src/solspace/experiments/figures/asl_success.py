"""Appendix: the fraction of ASL samples that solve their instance, against the load, for several sizes (log, T = 0.5).

Replica theory predicts α = 0.6514 as the load up to which ASL samples, for N → ∞: up to which message passing converges, so
that the fraction of runs in which all of its calls do stands beside.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import sampled, shares, steps
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.system.plain import Values

PAPER = Target("binary", "log", temperature=0.5)
STOPS = 0.651417
"""Where ASL stops in the paper's figure."""


def converged_fraction(row: Values) -> float | None:
    """Return 1 where every call of AMP in a run converged, else 0."""
    missed = row.get("unconverged")
    return None if missed is None else float(missed == 0)


def figure(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure; of another target, loads are the same shares of the one at which ASL stops."""
    target = Target("binary", "log", temperature, margin)

    def specs(size: str) -> Sequence[Spec]:
        # the paper has 250 simulations a point, each on an instance of its own
        loads, n, instances = {
            "quick": ((0.4, 0.5, 0.55, 0.6, 0.65, 0.7), [201, 501, 1001], 12),
            "paper": (steps(0.3, 0.75, 0.025), [501, 1001, 2001, 5001], 250),
        }[size]
        if target != PAPER:
            loads = shares([load / STOPS for load in loads], sampled(target))
        return [Spec(name="asl-success", target=target, sampler=LOCALIZE, n=n, alpha=list(loads), instances=instances)]

    def theory(size: str) -> Sequence[Task]:
        return thresholds_of(target)

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        by = ["n", "alpha"]
        panels = {
            "the sample is a solution": results.mean("solved_fraction", by),
            "every call of AMP converged": results.mean(converged_fraction, by),
        }
        with style.style():
            figure, axes = style.panels(2, width=4.8, height=4.0, sharey=True)
            for (name, points), ax in zip(panels.items(), axes):
                sweeps.success(points, ax)
                for row in results.rows(kind="thresholds"):
                    sweeps.threshold(ax, row.values["asl"], r"theory: $\alpha_\mathrm{ASL}$ =")
                ax.legend(loc="lower left")
                ax.set(ylabel="fraction of runs", title=name)
            heading = rf"ASL, binary perceptron, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}"
            figure.suptitle(heading, fontsize=11)
            instances = max(point["instances"] for points in panels.values() for point in points)
            sweeps.note(
                figure, f"{instances} instances a point, one sample each, ±1 patterns; bars: one-sigma Wilson intervals"
            )
        return Picture(figure, [{"runs": name, **point} for name, points in panels.items() for point in points])

    words = "success of ASL against the load, and its threshold"
    return Figure("asl-success", words, "appendix", draw, specs, theory)


FIGURES = (adjustable(figure),)
