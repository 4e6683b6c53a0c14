"""Ours: samples of the symmetric perceptron that lie inside the band, |s| <= 1, by ASL and by τ-annealing, against the load.

Left: ASL at T = 0.5 and 0.7, with the thresholds that theory gives for N → ∞. Right: τ-annealing at T = 0.7, for several
numbers of sweeps.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target

TEMPERATURES = (0.5, 0.7)


def _target(temperature: float) -> Target:
    return Target("binary", "log_band(1)", temperature=temperature)


def specs(size: str) -> Sequence[Spec]:
    """Return the sweeps of ASL and of τ-annealing over the load."""
    n, instances, step, stop = {"quick": (301, 8, 0.2, 1.4), "paper": (1001, 50, 0.05, 1.6)}[size]
    counts = {"quick": [10, 100], "paper": [10, 100, 1000, "n"]}[size]
    alphas = {"start": 0.6, "stop": stop, "step": step}
    name = "symmetric-success"
    return [
        Spec(name=name, n=n, alpha=alphas, target=_target(0.5), temperature=list(TEMPERATURES), sampler="asl",
             instances=instances),
        Spec(name=name, n=n, alpha=alphas, target=_target(0.7), instances=instances,
             sampler={"name": "tau", "n_sweeps": counts}),
    ]  # fmt: skip


def theory(size: str) -> Sequence[Task]:
    """Return the thresholds at both temperatures."""
    return [task for heat in TEMPERATURES for task in thresholds_of(_target(heat))]


def draw(results: Results, size: str) -> Picture:
    """Return two panels."""
    from solspace.plots import style, sweeps

    points = results.mean("solved_fraction", by=["sampler", "temperature", "n_sweeps", "n", "alpha"])
    asl = [p for p in points if p["sampler"] == "asl"]
    tau = [p for p in points if p["sampler"] == "tau"]
    with style.style():
        figure, (left, right) = style.panels(2, width=4.6, sharey=True)
        sweeps.success(asl, left, series="temperature", label="ASL, T = {}")
        for colour, row in zip(style.SERIES, _thresholds(results)):
            sweeps.threshold(left, row["asl"], f"theory, T = {row['temperature']:g}:", colour)
        left.legend(loc="lower left")
        left.set_title("ASL")
        sweeps.success(tau, right, series="n_sweeps", label="{} sweeps")
        right.set_title("τ-annealing, T = 0.7")
        n, count = points[0]["n"], max(p["instances"] for p in points)
        figure.suptitle(r"symmetric perceptron, $U = -\log(1 - s^2)$", fontsize=11)
        sweeps.note(
            figure,
            f"N = {n}, {count} instances a point, one sample each, ±1 patterns, solved: all |s| <= 1; bars: one-sigma "
            "Wilson intervals",
        )
    return Picture(figure, [{"panel": p["sampler"], **p} for p in points])


def _thresholds(results: Results) -> list[dict[str, float]]:
    rows = results.rows(kind="thresholds")
    found = [{"temperature": row.task["target"]["temperature"], "asl": row.values["asl"]} for row in rows]
    return sorted((row for row in found if row["asl"] is not None), key=lambda row: row["temperature"])


FIGURES = (
    Figure(
        "symmetric-success",
        "samples of the symmetric perceptron inside the band, by ASL and τ-annealing",
        "ours",
        draw,
        specs,
        theory,
    ),
)
