"""Ours: samples of the symmetric perceptron that lie inside the band, |s| <= 1, by ASL and by τ-annealing, against the load.

Left: ASL at T = 0.5 and 0.7, with the thresholds that theory gives for N → ∞. Right: τ-annealing at T = 0.7, for several
numbers of sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import Figure, Picture, adjustable
from solspace.experiments.figures.loads import rescaled, steps
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.measure.potentials import LogBand

TEMPERATURES = (0.5, 0.7)


def figure(width: float = 1.0) -> Figure:
    """Return the figure; of another band, loads are the same shares of its capacity."""
    name, where = "symmetric-success", "1" if width == 1 else f"{width:g}"

    def target(temperature: float, band: float = width) -> Target:
        return Target("binary", LogBand(band), temperature)

    def specs(size: str) -> Sequence[Spec]:
        n, instances, step, stop = {"quick": (301, 8, 0.2, 1.4), "paper": (1001, 50, 0.05, 1.6)}[size]
        counts = {"quick": [10, 100], "paper": [10, 100, 1000]}[size]
        alphas = list(rescaled(steps(0.6, stop, step), target(0.5), target(0.5, 1.0)))
        return [
            Spec(name=name, n=n, alpha=alphas, target=target(0.5), temperature=list(TEMPERATURES), sampler="asl",
                 instances=instances),
            Spec(name=name, n=n, alpha=alphas, target=target(0.7), instances=instances,
                 sampler={"name": "tau", "n_sweeps": counts}),
        ]  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        return [task for heat in TEMPERATURES for task in thresholds_of(target(heat))]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        points = results.mean("solved_fraction", by=["sampler", "temperature", "n_sweeps", "n", "alpha"])
        asl = [p for p in points if p["sampler"] == "asl"]
        tau = [p for p in points if p["sampler"] == "tau"]
        with style.style():
            figure, (left, right) = style.panels(2, width=4.6, sharey=True)
            sweeps.success(asl, left, series="temperature", label="ASL, T = {}")
            for colour, row in zip(style.SERIES, _thresholds(results)):
                sweeps.threshold(left, row["asl"], f"theory, T = {row['temperature']:g}:", colour)
            left.legend(loc="lower left", frameon=True, framealpha=1, edgecolor="none")  # the lines pass behind it
            left.set_title("ASL")
            sweeps.success(tau, right, series="n_sweeps", label="{} sweeps")
            right.set_title("τ-annealing, T = 0.7")
            n, count = points[0]["n"], max(p["instances"] for p in points)
            square = where if width == 1 else f"{where}^2"
            figure.suptitle(rf"symmetric perceptron, $U = -\log({square} - s^2)$", fontsize=11)
            sweeps.note(
                figure,
                f"N = {n}, {count} instances a point, one sample each, ±1 patterns, solved: all |s| <= {where}; bars: "
                "one-sigma Wilson intervals",
            )
        return Picture(figure, [{"panel": p["sampler"], **p} for p in points])

    words = "samples of the symmetric perceptron inside the band, by ASL and τ-annealing"
    return Figure(name, words, "ours", draw, specs, theory)


def _thresholds(results: Results) -> list[dict[str, float]]:
    rows = results.rows(kind="thresholds")
    found = [{"temperature": row.task["target"]["temperature"], "asl": row.values["asl"]} for row in rows]
    return sorted((row for row in found if row["asl"] is not None), key=lambda row: row["temperature"])


FIGURES = (adjustable(figure),)
