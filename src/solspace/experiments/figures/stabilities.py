"""Stabilities of ASL samples against P(s), their overlaps beside r: Fig. 2 right, ±1 weights under the log potential with
N = 5000, α = 0.3, T = 0.5; and in the appendix the sphere under the uniform measure, κ = -2.1, N = 1001, α = 5, 20, 80.

α = 80 is close to the dAT line at 82.85, where overlaps vary most from instance to instance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import sampled, shares
from solspace.experiments.predictions import stabilities_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.bins import bins, spacing
from solspace.store import Result
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SEEN = 1e-3
"""Share of the highest density below which a curve cannot be told from the axis."""
Sizes = Callable[[str], Mapping[float, tuple[int, int, int]]]
"""Size -> loads: (N, instances, samples of each)."""


def stabilities(
    name: str, place: str, words: str, target: Target, sizes: Sizes, reach: tuple[float, float], heading: str
) -> Figure:
    """Return the figure of one target, with the stabilities from `reach[0]` to `reach[1]`."""

    def specs(size: str) -> Sequence[Spec]:
        return [
            Spec(name=name, n=n, alpha=alpha, target=target, sampler=LOCALIZE, n_samples=samples, instances=instances,
                 keep=["stabilities", "violations"])
            for alpha, (n, instances, samples) in sizes(size).items()
        ]  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        return [stabilities_of(target, alpha, *reach) for alpha in sizes(size)]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        predictions = list(results.rows(arrays=True, kind="stabilities"))
        table = []
        with style.style():
            figure, axes = style.panels(len(predictions), width=4.4 if len(predictions) > 1 else 5.2, squeeze=False)
            for ax, prediction in zip(axes.flat, predictions):
                table += panel(results, prediction, ax)
            figure.suptitle(heading, fontsize=11)
            sweeps.note(figure, "overlap: of pairs of samples of one instance, its error over instances; ±1 patterns")
        return Picture(figure, table)

    return Figure(name, f"stabilities of ASL samples against P(s), {words}", place, draw, specs, theory)


def panel(results: Results, theory: Result, ax: Axes) -> list[Values]:
    """Draw all samples at one load under their prediction; return the table of the histogram's numbers."""
    from solspace.plots import sweeps

    alpha, target = theory.task["alpha"], theory.task["target"]
    rows = [
        row for row in results.rows(arrays=True, kind="sample")
        if row.task["alpha"] == alpha and row.task["target"] == target
    ]  # fmt: skip
    s, density = theory.arrays["s"], theory.arrays["density"]
    count = sum(len(row.arrays["stabilities"]) for row in rows)
    values = np.concatenate([row.arrays["stabilities"].ravel() for row in rows]).astype(float)
    edges = bins(values, target["margin"], spacing(values, rows[0].task["n"]))
    sweeps.stabilities(values, edges, ax, s, density, target["margin"], f"ASL, {count} samples")
    ax.set_xlim(s[0], s[density > SEEN * density.max()][-1])
    overlaps = np.array([row.values["overlap"] for row in rows])
    error = overlaps.std(ddof=1) / np.sqrt(len(overlaps)) if len(overlaps) > 1 else np.nan
    solved, missed = sum(row.values["solved"] for row in rows), int(sum(row.arrays["violations"].sum() for row in rows))
    words = [
        f"overlap {overlaps.mean():.4f} ± {error:.4f}",
        f"theory r = {theory.values['overlap']:.4f}",
        f"solved {solved}/{count}" + (f", {missed} constraints missed" if missed else ""),
    ]
    ax.text(0.97, 0.62, "\n".join(words), transform=ax.transAxes, ha="right", va="top", fontsize=8)
    ax.set_title(f"N = {rows[0].task['n']}, α = {alpha:g}, {len(rows)} instances")
    return _table(values, s, density, edges, alpha)


def _table(values: Reals, s: Reals, density: Reals, edges: Reals, alpha: float) -> list[Values]:
    counts, _ = np.histogram(values, edges)
    width = edges[1] - edges[0]
    centres = (edges[1:] + edges[:-1]) / 2
    theory = np.interp(centres, s, density, right=0.0)
    return [
        {"alpha": alpha, "s": float(x), "count": int(c), "density": float(c / len(values) / width), "theory": float(p)}
        for x, c, p in zip(centres, counts, theory)
    ]


def binary(temperature: float = 0.5, margin: float = 0.0, alpha: float = 0.3) -> Figure:
    """Return Fig. 2 right."""
    counts = {"quick": (5000, 4, 4), "paper": (5000, 16, 16)}
    return stabilities(
        "binary-stabilities", "Fig. 2 right", "N = 5000", Target("binary", "log", temperature, margin),
        lambda size: {alpha: counts[size]}, (margin - 0.2, margin + 5.5),
        rf"binary, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}",
    )  # fmt: skip


LOADS = (5.0, 20.0, 80.0)
COUNTS = {"quick": ((1001, 4, 4), (1001, 4, 4), (501, 2, 4)), "paper": ((1001, 10, 16),) * 3}


def spherical(margin: float = -2.1) -> Figure:
    """Return the figure of the appendix; at another margin, loads are the same shares of the one at which ASL stops."""
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.1))

    def sizes(size: str) -> Mapping[float, tuple[int, int, int]]:
        parts = [load / sampled(paper) for load in LOADS] if target != paper else []
        return dict(zip(shares(parts, sampled(target)) if parts else LOADS, COUNTS[size]))

    return stabilities(
        "spherical-stabilities", "appendix", f"κ = {signed(margin)}", target, sizes,
        (margin - 0.3, max(5.5, margin + 5.5)),
        f"spherical, $U = 0$, κ = {signed(margin)}",
    )  # fmt: skip


FIGURES = (adjustable(binary), adjustable(spherical))
