"""Solving by chains: τ-annealing that stops at the first solution, and annealing of the number of unmet constraints.

τ-annealing is for half-spaces and bands, and any patterns. Other constraints, and data that cannot be solved, are annealed by
how many of them are unmet, from T = 1 down to 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solspace.measure import Target
from solspace.measure.potential import Potential
from solspace.measure.potentials import Band, Log, LogBand, Uniform
from solspace.numerics.streams import child
from solspace.samplers.annealing.anneal import first_solutions
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.annealing.schedules import Stage, TauAnnealing
from solspace.samplers.constraints import Unmet, flat
from solspace.samplers.solving.search import OutOfTime, Search

HEAT = 1.0
"""Temperature, in constraints, at which the number of unmet ones is first annealed."""
SWEEPS = (100, 1000, 4000)
"""One attempt after another."""
CHAINS = 4
"""Chains side by side, for each solution that is still to be found."""


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


def fewest(search: Search, sweeps: int = 1000) -> None:
    """Lower the number of unmet constraints where they cannot all be met.

    τ-annealing leaves fewer than annealing of their number but on the smallest problems (n = 301, α = 1.5: 61 against 82).
    """
    if search.lacking and "tau" not in search.tried:
        tau(search, (sweeps,))
    if search.lacking:
        _anneal(search, "fewest", sweeps, len(SWEEPS))


def _way(target: Target, method: str) -> tuple[Target, object]:
    """Return the target that chains are to end in, and the schedule that leads there."""
    plain = flat(target)
    if method == "tau" and isinstance(plain.potential, (Uniform, Band)):
        walls = Log() if isinstance(plain.potential, Uniform) else LogBand(plain.potential.width)
        return Target(potential=walls, margin=plain.margin), TauAnnealing()
    return plain, Fewest(plain.potential)


def _anneal(search: Search, method: str, sweeps: int, number: int) -> None:
    n_chains = CHAINS * search.lacking
    search.begin(method, n_chains)
    target, schedule = _way(search.problem.target, method)
    last, done = None, 0

    def look(chains: Chains) -> None:
        nonlocal last, done
        last, made, done = chains.weights, chains.sweep - done, chains.sweep
        search.go_on(made)

    try:
        found = first_solutions(
            search.problem.with_target(target), n_chains, sweeps, schedule, rng=child(search.seeds, 2, number),
            device=search.where, progress=False, callback=look,
        )  # fmt: skip
    except (OutOfTime, KeyboardInterrupt):
        if last is not None:
            search.offer(last)
        raise
    search.offer(found.weights)
