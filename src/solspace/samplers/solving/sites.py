"""Reinforced expectation propagation, for patterns on which AMP's averages do not hold.

`marginals.propagation` in the place of AMP: after every sweep of its updates the field that each weight feels, cavity and
own, is fed back with some noise, h ← r_k (h + r) + σ (1 - r_k) z, with r_k = k δ.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.streams import child, generator
from solspace.samplers.constraints import flat, nonzero
from solspace.samplers.marginals.ep import propagation
from solspace.samplers.solving.search import Search

RATES = (0.02, 0.005, 0.002)
"""One pass after another."""
NOISE = 0.2
"""Size of the noise on the fields, by which runs differ; it falls with 1 - r."""
LARGEST = 6.0
"""Largest field: beyond it a weight has decided, and the Gaussian's variances would vanish."""
DECIDED = 0.9999
"""|m|²/n from which on no sign changes."""


def ep(search: Search, runs: int = 1) -> None:
    """Search by one pass after another, `runs` for each solution that is still to be found."""
    for number, rate in enumerate(RATES):
        if search.lacking:
            _pass(search, rate, runs * search.lacking, number)


def _pass(search: Search, rate: float, k: int, number: int) -> None:
    search.begin("ep", k)
    problem = nonzero(search.problem).with_target(flat(search.problem.target))
    made = propagation(problem, k, where=search.where)
    random = generator(child(search.seeds, 3, number))
    made.field[...] = NOISE * random.standard_normal((k, problem.n))
    every, at_once, moving = np.full(k, np.inf), np.ones(k, int), np.arange(k)
    for step in range(1, int(1 / rate) + 20):
        try:
            with np.errstate(all="ignore"):
                made.run(every, at_once, moving)  # any change will do: one sweep of updates
        except (ValueError, np.linalg.LinAlgError):
            return  # sites ran away, as they do where weights decide against a constraint
        felt = np.arctanh(np.clip(made.mean, -np.tanh(LARGEST), np.tanh(LARGEST)))
        share = min(rate * step, 1.0)
        made.field[...] = share * felt + NOISE * (1 - share) * random.standard_normal((k, problem.n))
        search.go_on(1, lambda: float(np.abs(made.field).mean()))
        missed = search.offer(np.where(made.mean[moving] >= 0, 1, -1))
        moving = moving[(missed > 0) & ((made.mean[moving] ** 2).mean(axis=1) < DECIDED)]
        if not search.lacking or not len(moving):
            return
