"""Solutions with real weights: descent on the squares of the distances by which constraints are missed.

    E(w) = ½ Σ_μ (distance of s_μ from what is allowed)²,   by L-BFGS from random starts.

Spherical weights stay on their sphere. Where the margin is negative the energy is not convex, and descent ends at E > 0 from
some load on, beyond that at which fair samples can be drawn. The walls are drawn in by `SLACK` while it runs, or it would come to
them in infinitely many steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.optimize import minimize

from solspace.measure.priors import Spherical
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.constraints import flat, interval

if TYPE_CHECKING:
    from solspace.samplers.solving.solve import Search

SLACK = 1e-3  # by which walls are drawn in
STARTS = 8  # from which a solution is looked for, without a time limit
STEPS, CHECK = 4000, 20  # of a descent at most, and between two looks at whether every constraint is met


class _Met(Exception):
    pass


def descend(search: Search) -> None:
    """Look for each solution from random starts."""
    problem, found = search.problem, flat(search.problem.target)
    low, high = interval(found.potential)
    if not np.isfinite([low, high]).any():
        raise ValueError(f"solve needs one interval of allowed stabilities; {problem.target.potential} has none.")
    rows = problem.patterns.astype(np.float32) / np.float32(np.sqrt(problem.n))
    ends = found.margin + low + SLACK, found.margin + high - SLACK
    start = 0
    while search.lacking and (start < STARTS * search.n_solutions or search.limit is not None):
        search.begin("descent", 1)
        search.offer(
            _descended(search, rows, ends, problem.target.prior.draw(problem.n, generator(search.seeds, 5, start)))[
                None
            ]
        )
        start += 1


def _descended(search: Search, rows: Array, ends: tuple[float, float], first: Array) -> Array:
    sphere = isinstance(search.problem.target.prior, Spherical)
    size, steps, best = np.sqrt(len(first)), 0, first

    def onto(u: Array) -> Array:
        return u * (size / np.linalg.norm(u)) if sphere else u

    def energy(u: Array) -> tuple[float, Array]:
        w = onto(u)
        s = rows @ w.astype(np.float32)
        beyond = np.minimum(s - np.float32(ends[0]), 0) + np.maximum(s - np.float32(ends[1]), 0)
        gradient = (beyond @ rows).astype(float)
        if sphere:  # along the sphere, in units of u
            gradient = (gradient - w * (gradient @ w) / (w @ w)) * (size / np.linalg.norm(u))
        return 0.5 * float(beyond @ beyond), gradient

    def look(u: Array) -> None:
        nonlocal steps, best
        steps += 1
        if steps % CHECK == 0:
            search.advance(CHECK)
            best = onto(u)
            if search.problem.violations(best) == 0:
                raise _Met

    try:
        found = minimize(
            energy, first, jac=True, method="L-BFGS-B", callback=look,
            options={"maxiter": STEPS, "maxfun": 2 * STEPS, "maxcor": 20, "ftol": 1e-12, "gtol": 1e-9},
        )  # fmt: skip
        return onto(np.asarray(found.x))
    except _Met:
        return best
