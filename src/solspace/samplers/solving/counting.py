"""How many solutions a problem has: by looking at all weights where they are few, else by expectation propagation.

EP's log Z under the uniform measure on the constraints is the logarithm of their number. Nothing is assumed of the patterns.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from solspace.enumeration import LARGEST, fewest_missed
from solspace.problem import Perceptron
from solspace.samplers.constraints import contradiction, flat, nonzero, tie, zero_rows
from solspace.samplers.marginals.ep import ep

ERROR = 0.1
"""Of log Z by EP under the uniform measure: median difference from enumeration at n = 16 on small images, m = 4 to 8 (.09 to
.11, EP's being the larger), of Gaussian and correlated patterns .02 to .16, of ±1 patterns .04 to .23, growing with the load;
`python -m benchmarks ep-accuracy`."""


@dataclass(frozen=True)
class Count:
    """The logarithm of the number of solutions, -inf where there are proved to be none, and how it was found."""

    log_number: float
    error: float
    """As measured elsewhere, `ERROR`; 0 where all weights were looked at."""
    method: str
    """"exact" or "ep"."""
    doubt: str = ""
    """Why not to trust it, in a sentence; empty where nothing speaks against it."""

    def __str__(self) -> str:
        if math.isnan(self.log_number):
            return f"unknown: {self.doubt}"
        if math.isinf(self.log_number):
            return "there is no solution"
        return f"{self.log_number:.3f}" + (f" ± {self.error:g}" if self.error else "")


def count(problem: Perceptron, device: str = "cpu") -> Count:
    """Return the number of solutions of `problem`, ±1 weights, whatever its potential prefers.

    >>> problem = Perceptron.random(n=15, alpha=0.5, rng=0)
    >>> found = count(problem)
    >>> found.method, round(math.exp(found.log_number)) == problem.enumerate().n_solutions
    ('exact', True)
    """
    if emptiness(problem):
        return Count(-math.inf, 0.0, "exact")
    if problem.n <= LARGEST:
        return Count(math.log(len(fewest_missed(problem)[1])), 0.0, "exact")
    if len(zero_rows(problem)) == problem.m:
        return Count(problem.n * math.log(2), 0.0, "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # said in words below
        found = ep(nonzero(problem).with_target(flat(problem.target)), device=device)
    value = float(found.log_partition) if np.isfinite(found.log_partition) else math.nan
    doubt, _ = tie(problem)
    if not doubt and not found.converged:
        doubt = f"expectation propagation has {found.status}"
    elif not doubt and value < 1:
        doubt = "so few solutions are beyond what expectation propagation can tell from none"
    elif not doubt and found.variances == "scalar":
        doubt = "the problem is large, and one variance for all weights was kept: exact for random patterns only"
    return Count(value, ERROR, "ep", doubt)


def emptiness(problem: Perceptron) -> str:
    """Return in a sentence why no ±1 weights meet every constraint, where that is proved; else ''.

    >>> emptiness(Perceptron([[1, 1, 1], [-1, -1, -1]]))
    'every one of the 2^3 weights was looked at, and the best miss 1 of 2 constraints.'
    """
    if problem.n > LARGEST:
        return contradiction(problem)
    missed, _ = fewest_missed(problem)
    looked = f"every one of the 2^{problem.n} weights was looked at"
    return f"{looked}, and the best miss {missed} of {problem.m} constraints." if missed else ""
