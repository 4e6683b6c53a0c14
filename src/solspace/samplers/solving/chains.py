"""Solving by chains: τ-annealing that stops at the first solution, and annealing of the number of unmet constraints.

τ-annealing is for half-spaces and any patterns. Other constraints, and data that cannot be solved, are annealed by how many
of them are unmet, from T = 1 down to 0: that leaves the fewest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.measure import Target
from solspace.measure.potential import Potential
from solspace.numerics.streams import child
from solspace.samplers.annealing.anneal import anneal
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.annealing.schedules import Stage, TauAnnealing
from solspace.samplers.solving.constraints import Unmet, flat, is_half_space
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
    half = is_half_space(search.problem.target)
    for number, count in enumerate(sweeps):
        if not search.lacking:
            return
        _anneal(search, "tau", TauAnnealing() if half else None, count, number)


def fewest(search: Search, sweeps: int = 1000) -> None:
    """Lower the number of unmet constraints where they cannot all be met.

    τ-annealing leaves fewer than annealing of their number but on the smallest problems (n = 301, α = 1.5: 61 against 82).
    """
    if search.lacking and "tau" not in search.tried:
        tau(search, (sweeps,))
    if search.lacking:
        _anneal(search, "fewest", None, sweeps, len(SWEEPS))


def _anneal(search: Search, method: str, schedule: Any, sweeps: int, number: int) -> None:
    n_chains = CHAINS * search.lacking
    search.begin(method, n_chains)
    target, last, done = search.problem.target, None, 0

    def look(chains: Chains) -> None:
        nonlocal last, done
        last, made, done = chains.weights, chains.sweep - done, chains.sweep
        search.go_on(made)

    problem = search.problem if schedule is None else search.problem.with_target(Target(margin=target.margin))
    try:
        found = anneal(
            problem, n_chains, sweeps, schedule or Fewest(flat(target).potential), rng=child(search.seeds, 2, number),
            mode="solve", device=search.where, progress=False, callback=look,
        )  # fmt: skip
    except (OutOfTime, KeyboardInterrupt):
        if last is not None:
            search.offer(last)
        raise
    search.offer(found.weights)
