"""Not in the paper: how far and how fast solutions are found, by the samplers and by `solve`, which only has to find one.

The same instances for all; for the symmetric perceptron, |s| <= 1, `solve` alone. Times are those of one task on one core, or
on the device, whatever else the machine did.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import rescaled
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.samplers.registry import find
from solspace.system.plain import Values

PAPER, BAND = Target("binary", "log", temperature=0.5), Target("binary", "band(1)")
SHORTEST = 1e-3
"""Seconds: shorter times are drawn as this."""
SIZES = {"quick": (201, 501), "paper": (1001, 10001)}
LOADS = {
    "quick": [0.4, 0.5, 0.6, 0.66, 0.7, 0.74],
    "paper": [0.4, 0.5, 0.55, 0.6, 0.64, 0.68, 0.7, 0.72, 0.74, 0.75],
}
LIMITS = {"quick": 2.0, "paper": 10.0}
"""Seconds that `solve` may take."""
BANDS = {"quick": [0.8, 1.2, 1.5], "paper": [1.0, 1.2, 1.4, 1.5, 1.55, 1.6]}


def _positive(point: Values) -> Values:
    """Return a point whose times can be drawn on a logarithmic axis."""
    return {**point, **{name: max(point[name], SHORTEST) for name in ("mean", "low", "high")}}


def figure(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure; at another margin, loads are the same shares of the capacity."""
    half = Target("binary", "log", temperature, margin)

    def specs(size: str) -> Sequence[Spec]:
        instances, sweeps = {"quick": (8, 200), "paper": (20, 1000)}[size]
        solve = {"name": "solve", "time_limit": LIMITS[size]}
        chains = {"n_sweeps": sweeps}
        common: Values = {"name": "solvers", "n": list(SIZES[size]), "instances": instances}
        samplers = ["asl", {"name": "tau-first", **chains}, {"name": "temperature", **chains}, solve]
        return [
            Spec(alpha=list(rescaled(LOADS[size], half, PAPER)), target=half, sampler=samplers, **common),
            Spec(alpha=BANDS[size], target=BAND, sampler=solve, **common),
        ]

    def theory(size: str) -> Sequence[Task]:
        # the capacity, which does not depend on the potential
        return thresholds_of(half)

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        by = ("potential", "sampler", "n", "alpha")
        solved = results.mean("solved_fraction", by=by)
        spent = [_positive(point) for point in results.mean("seconds", by=by) if point["sampler"] is not None]
        titled = [[{**point, "sampler": find(point["sampler"]).title} for point in found] for found in (solved, spent)]
        sizes = SIZES[size]
        with style.style():
            figure, axes = style.panels(len(sizes) + 1, width=4.2, height=3.4, rows=2, sharex="col", sharey="row")
            drawings: tuple[Callable[..., object], ...] = sweeps.success, sweeps.curves
            for points, row, drawn in zip(titled, axes, drawings):
                for ax, n in zip(row, sizes):
                    drawn([p for p in points if p["potential"] == "log" and p["n"] == n], ax, "sampler", label="{}")
                    ax.set_title(f"N = {n}")
                drawn([p for p in points if p["potential"] != "log"], row[-1])
                row[-1].set_title("symmetric perceptron, |s| ≤ 1, solve")
            for ax in axes[0]:
                ax.set(xlabel="")
            for ax in axes[1]:
                ax.set(xlabel=r"load $\alpha$", ylabel="seconds, mean", yscale="log", title="")
            for row in results.rows(kind="thresholds"):
                for ax in axes[0, :-1]:
                    sweeps.threshold(ax, row.values["capacity"], "capacity")
            heading = "" if half == PAPER else f"T = {temperature:g}, κ = {signed(margin)}"
            sweeps.legend_above(figure, axes[:, :-1].flat, heading)
            instances = max(point["instances"] for point in solved)
            heat = "" if temperature == 0.5 else f", samplers at T = {temperature:g}"
            sweeps.note(
                figure,
                f"{instances} instances a point, ±1 patterns, κ = {signed(margin)}{heat}, at most {LIMITS[size]:g} s for solve; "
                "bars: one sigma",
            )
        return Picture(figure, [{**p, "seconds": t["mean"]} for p, t in zip(solved, spent)])

    return Figure("solvers", "how far and how fast solutions are found", "not in the paper", draw, specs, theory)


FIGURES = (adjustable(figure),)
