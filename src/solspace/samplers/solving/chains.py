"""Solutions by annealed chains.

* `tau`: τ-annealing that stops at the first solution, for half-spaces and bands, and any patterns;
* `fewest`: the number of unmet constraints annealed from T = 1 to 0, for other constraints, and data that cannot be solved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Band, Log, LogBand, Potential, Uniform
from solspace.numerics.arrays import Array
from solspace.numerics.streams import child
from solspace.samplers.annealing.anneal import first_solutions
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.annealing.schedules import Stage, TauAnnealing
from solspace.samplers.constraints import Unmet, flat

if TYPE_CHECKING:
    from solspace.samplers.solving.solve import Search

HEAT = 1.0  # temperature, in constraints, at which annealing the number of unmet ones begins
SWEEPS = (100, 1000, 4000)  # sweeps of one attempt after another
FEWEST_SWEEPS = 1000
CHAINS = 4  # chains side by side, for each solution that is still to be found


@dataclass(frozen=True)
class Fewest:
    """The number of constraints that a potential does not allow, from T = HEAT to 0."""

    potential: Potential
    name = "fewest"

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        """Return T = HEAT, ..., 0."""
        return [Stage(Unmet(self.potential), float(heat), target.margin) for heat in np.linspace(HEAT, 0.0, n_sweeps)]


def tau(search: Search, sweeps: Sequence[int] = SWEEPS) -> None:
    """Search by chains, each attempt longer than the one before."""
    for number, count in enumerate(sweeps):
        if not search.lacking:
            return
        _anneal(search, "tau", count, number)


def fewest(search: Search) -> None:
    """Lower the number of unmet constraints: first by τ-annealing, which leaves fewer except on the smallest problems."""
    if search.lacking and "tau" not in search.tried:
        tau(search, (FEWEST_SWEEPS,))
    if search.lacking:
        _anneal(search, "fewest", FEWEST_SWEEPS, len(SWEEPS))


def _anneal(search: Search, method: str, sweeps: int, number: int) -> None:
    n_chains = CHAINS * search.lacking
    search.begin(method, n_chains)
    target = flat(search.problem.target)
    schedule: object = Fewest(target.potential)
    if method == "tau" and isinstance(target.potential, (Uniform, Band)):
        walls = Log() if isinstance(target.potential, Uniform) else LogBand(target.potential.width)
        target, schedule = Target(potential=walls, margin=target.margin), TauAnnealing()
    best: Array | None = None
    done = 0

    def look(chains: Chains) -> None:
        nonlocal best, done
        best, steps, done = chains.weights, chains.sweep - done, chains.sweep
        search.advance(steps)

    try:
        best = first_solutions(
            search.problem.with_target(target),
            n_chains,
            sweeps,
            schedule,
            rng=child(search.seeds, 2, number),
            device=search.where,
            progress=False,
            callback=look,
        ).weights
    finally:  # also after the time limit and Ctrl-C
        if best is not None:
            search.offer(best)
