"""Fig. 3: the fraction of instances solved after 100 sweeps of Metropolis, against the load, for several sizes.

Left: simulated annealing of the temperature on U = -sΘ(-s). Right: τ-annealing towards the log potential at T = 0.5.
The same instances in both.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.annealing import picture, theory
from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec

SWEEPS = 100


def specs(size: str) -> Sequence[Spec]:
    """Return one sweep over both schedules."""
    sizes, instances = {"quick": ([201, 501, 1001], 40), "paper": ([501, 1001, 2001, 5001, 10001], 100)}[size]
    samplers = [{"name": "temperature", "n_sweeps": SWEEPS}, {"name": "tau", "n_sweeps": SWEEPS}]
    alphas = {"start": 0.05, "stop": 0.7, "step": 0.05 if size == "quick" else 0.025}
    return [Spec(name="mcmc-comparison", n=sizes, alpha=alphas, sampler=samplers, instances=instances)]


def draw(results: Results, size: str) -> Picture:
    """Return both panels side by side."""
    panels = [
        (r"annealing $T$: 1 → 0 on $-s\,\Theta(-s)$", {"sampler": "temperature"}),
        (r"annealing $\tau$: 1 → 0, log potential at T = 0.5", {"sampler": "tau"}),
    ]
    return picture(results, panels, f"{SWEEPS} sweeps of Metropolis on the binary perceptron, κ = 0")


FIGURE = Figure(
    "mcmc-comparison", "success of τ- and temperature annealing after 100 sweeps", "Fig. 3", draw, specs, theory
)
