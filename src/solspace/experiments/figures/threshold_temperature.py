"""Ours: how far ASL reaches depends on the temperature of the log potential, and theory knows.

Left: the predicted threshold against T; its largest value is near T = 0.70, above the paper's choice T = 0.5. What
theory predicts is where message passing stops to converge: centre, its instability λ along the run against the
overlap q, measured and predicted (λ = 1 is where F' = 0), and the fraction of calls that missed their tolerance,
against the load. What does not follow is success: right, the samples that solve their instance at T = 0.5 and 0.7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import sampled, shares, steps
from solspace.experiments.predictions import instability_of, thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPERATURES = (0.5, 0.7)
SHOWN = 0.64
"""The load at which the instability along the run is drawn, and"""
STOPS = 0.651417
"""the one at which ASL stops at T = 0.5, in the paper's figure."""


def figure(margin: float = 0.0) -> Figure:
    """Return the figure; at another margin, loads are the same shares of the one at which ASL stops at T = 0.5."""

    def target(temperature: float) -> Target:
        return Target("binary", "log", temperature, margin)

    def scaled(*loads: float) -> list[float]:
        return list(loads if margin == 0 else shares([load / STOPS for load in loads], sampled(target(0.5))))

    def specs(size: str) -> Sequence[Spec]:
        n, samples, instances = {"quick": (1001, 1, 8), "paper": (10001, 8, 20)}[size]
        alphas = scaled(*((0.56, 0.6, SHOWN, 0.68) if size == "quick" else steps(0.56, 0.72, 0.02)))
        return [
            Spec(name="threshold-temperature", n=n, alpha=alphas, target=target(0.5), temperature=list(TEMPERATURES),
                 sampler={**LOCALIZE, "method": "careful"}, n_samples=samples, instances=instances, keep=["path"])
        ]  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        heats = np.round(np.linspace(0.3, 1.0, {"quick": 8, "paper": 36}[size]), 6)
        tasks = [task for heat in heats for task in thresholds_of(target(float(heat)))]
        return tasks + [instability_of(target(heat), *scaled(SHOWN)) for heat in TEMPERATURES]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        table: list[Values] = []
        with style.style():
            figure, (left, centre, right) = style.panels(3, width=3.7, height=3.4)
            table += _draw_thresholds(results, left)
            table += _draw_instability(results, centre)
            table += _draw_success(results, right)
            size_of = next(results.rows(kind="sample")).task
            count = max(point.get("instances", 0) for point in table)
            figure.suptitle(rf"binary perceptron, $U = -\log s$, κ = {signed(margin)}", fontsize=11)
            each = f"{size_of['n_samples']} sample" + ("s" if size_of["n_samples"] > 1 else "")
            sweeps.note(
                figure,
                f"N = {size_of['n']}, {count} instances a point with {each} each, ±1 patterns, method careful; bars: "
                "one-sigma intervals over instances (centre: median and central two thirds of runs)",
            )
        return Picture(figure, table)

    words = "ASL's threshold against T, AMP's convergence, and success"
    return Figure("threshold-temperature", words, "ours", draw, specs, theory)


def _draw_thresholds(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots.diagrams import temperature_lines
    from solspace.plots.style import SERIES

    rows = [row for row in results.rows(kind="thresholds") if row.values["asl"] is not None]
    heats = np.array([row.task["target"]["temperature"] for row in rows])
    loads = np.array([row.values["asl"] for row in rows])
    temperature_lines(heats, {"asl": loads}, ax)
    for colour, heat in zip(SERIES, TEMPERATURES):
        ax.axvline(heat, color=colour, lw=0.9, ls="--")
    ax.set(ylabel=r"threshold $\alpha_\mathrm{ASL}$", title="theory: where ASL stops")
    return [{"panel": "threshold", "temperature": float(t), "alpha": float(a)} for t, a in zip(heats, loads)]


def _draw_instability(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots.style import GREY, SERIES

    table = []
    for colour, heat in zip(SERIES, TEMPERATURES):
        kept = results.rows(arrays=True, kind="instability")
        (line,) = (row for row in kept if row.task["target"]["temperature"] == heat)
        target, shown = line.task["target"], line.task["alpha"]
        ax.plot(line.arrays["variance"], line.arrays["instability"], color=colour, label=f"theory, T = {heat:g}")
        rows = results.rows(arrays=True, kind="sample")
        runs = [r for r in rows if r.task["target"] == target and abs(r.task["alpha"] - shown) < 1e-9]
        paths = [[r.arrays[f"path_{name}"].ravel() for name in ("overlap", "instability", "converged")] for r in runs]
        measured: Reals = np.concatenate(paths, axis=1)
        table += _binned(measured, ax, colour, heat)
    ax.axhline(1, color=GREY, lw=0.9, ls="--")
    ax.set(xscale="log", xlabel="$1 - q$", ylabel=r"instability $\lambda$ of AMP", ylim=(0, 1.6), xlim=(0.5, 1e-4))
    ax.set_title(f"along the run, α = {shown:g}")
    ax.legend()
    return table


def _binned(measured: Reals, ax: Axes, colour: str, heat: float) -> list[Values]:
    """Draw the median measured λ in bins of log(1 - q), with the range of the central two thirds of the runs.

    The table has the fraction of AMP's calls that did not converge beside it.
    """
    from solspace.plots import sweeps

    overlap, value, converged = measured[:, np.isfinite(measured).all(axis=0)]
    variance = 1 - overlap
    edges = np.logspace(-4, np.log10(0.5), 20)
    slot = np.digitize(variance, edges)
    table = []
    for k in range(1, len(edges)):
        inside, missed = value[slot == k], converged[slot == k] == 0
        if len(inside) >= 5:
            low, middle, high = np.quantile(inside, [1 / 6, 1 / 2, 5 / 6])
            table.append({
                "panel": "instability", "temperature": heat, "variance": float(np.sqrt(edges[k - 1] * edges[k])),
                "mean": float(middle), "low": float(low), "high": float(high),
                "unconverged": float(missed.mean()), "runs": len(inside),
            })  # fmt: skip
    label = f"measured, T = {heat:g}"
    sweeps.curves(table, ax, "temperature", "variance", label, color=colour, marker="o", ms=3.5, ls="", capsize=0)
    return table


def _draw_success(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots import sweeps

    by = ["temperature", "alpha"]
    solved = results.mean("solved_fraction", by=by)
    missed = results.mean("unconverged", by=by)
    sweeps.success(solved, ax, series="temperature", label="solved, T = {}")
    sweeps.curves(missed, ax, series="temperature", label="unconverged, T = {}", dashed=True)
    ax.set(ylabel="fraction", title="solved, and AMP calls not converged")
    ax.legend(loc="center left", fontsize=7.5)
    return [{"panel": "solved", **p} for p in solved] + [{"panel": "unconverged", **p} for p in missed]


FIGURES = (adjustable(figure),)
