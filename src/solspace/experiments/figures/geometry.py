"""Figures on the geometry of solutions: their number around fair samples, the overlap gap, barriers between samples."""

from __future__ import annotations

import numpy as np

from solspace.experiments.figures import Content, drawn_by, register, signed
from solspace.experiments.geometry import sampled_tasks
from solspace.experiments.tasks import theory_task
from solspace.measure import Target

HEATS = (0.3, 0.5, 0.8)
LOADS = (0.3, 0.5, 0.65)
REACHED = {0.3: 0.58, 0.5: 0.651, 0.8: 0.66}  # loads up to which ASL samples at these temperatures
OVERLAPS = (0.55, 0.65, 0.75, 0.82, 0.87, 0.91, 0.94, 0.96, 0.975, 0.985)
PAIRS = {  # samplers between whose samples barriers are looked for
    "ASL": {"name": "asl"},
    "τ-annealing": {"name": "tau", "n_sweeps": "n"},
}


@register("local-entropy", "ours", "how many solutions lie around fair samples, theory and instances")
def local_entropy(size: str, margin: float = 0.0) -> Content:
    """v(p) around samples of the log potential and around typical solutions; instances where ASL samples fairly."""
    n, samples, instances = {"quick": (1001, 4, 5), "paper": (10001, 4, 10)}[size]
    uniform = Target("binary", "uniform", margin=margin)
    targets = {f"log, T = {heat:g}": Target("binary", "log", heat, margin) for heat in HEATS} | {"typical": uniform}
    theory = [theory_task("franz-parisi", target, alpha=alpha) for alpha in LOADS for target in targets.values()]
    for heat in HEATS:
        loads = [load for load in LOADS if load <= REACHED[heat]]
        target = targets[f"log, T = {heat:g}"]
        theory += sampled_tasks(
            "local-entropy", target, loads, {"name": "asl"}, n, samples, instances, overlaps=list(OVERLAPS)
        )
    heading = f"binary perceptron, κ = {signed(margin)}"
    return Content(drawn_by("geometry_pictures:local_entropy", targets, LOADS, heading), theory=theory)


@register("overlap-gap", "ours", "the load at which a gap opens around fair samples, against the temperature")
def overlap_gap(size: str, margin: float = 0.0) -> Content:
    heats = np.round(np.linspace(0.3, 1.0, {"quick": 8, "paper": 29}[size]), 6).tolist()
    theory = [theory_task("overlap-gap", Target("binary", "log", heat, margin)) for heat in heats]
    heading = rf"binary perceptron, $U = -\log s$, κ = {signed(margin)}"
    return Content(drawn_by("geometry_pictures:overlap_gap", heading), theory=theory)


@register("barriers", "ours", "barriers on the way from sample to sample, against the load")
def barriers(size: str, temperature: float = 0.5) -> Content:
    sizes, loads, instances = {
        "quick": ((501, 1001), (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6), 5),
        "paper": ((501, 1001, 2001), (0.1, 0.2, 0.3, 0.4, 0.45, 0.5, 0.55, 0.6, 0.64), 20),
    }[size]
    target = Target("binary", "log", temperature)
    theory = [
        task
        for n in sizes
        for sampler in PAIRS.values()
        for task in sampled_tasks(
            "barriers",
            target,
            loads,
            {key: n if value == "n" else value for key, value in sampler.items()},
            n,
            4,
            instances,
        )
    ]
    heading = rf"binary perceptron, $U = -\log s$, T = {temperature:g}, κ = 0"
    return Content(
        drawn_by("geometry_pictures:barriers", {own["name"]: label for label, own in PAIRS.items()}, heading),
        theory=theory,
    )
