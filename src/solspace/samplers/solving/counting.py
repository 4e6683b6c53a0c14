"""How many solutions a problem has: by enumeration for few weights, else by log Z of EP under the uniform measure."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

from solspace.enumeration import LARGEST, fewest_missed
from solspace.problem import Perceptron
from solspace.samplers.constraints import contradiction, flat, nonzero, tie, zero_rows
from solspace.samplers.marginals.ep import ep

ERROR = 0.1  # median difference of EP's log Z from enumeration at n = 16, `python -m benchmarks ep-accuracy`


@dataclass(frozen=True)
class Count:
    """The logarithm of the number of solutions, -inf if it is proved that there are none."""

    log_number: float
    error: float  # typical, as measured on small problems; 0 after enumeration
    method: str  # "exact" or "ep"
    doubt: str = ""  # why not to trust the number

    def __str__(self) -> str:
        if math.isnan(self.log_number):
            return f"unknown: {self.doubt}"
        if math.isinf(self.log_number):
            return "there is no solution"
        return f"{self.log_number:.3f}" + (f" ± {self.error:g}" if self.error else "")


def count(problem: Perceptron, device: str = "cpu") -> Count:
    """Return the number of solutions of `problem` with ±1 weights, each counted once whatever its energy.

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
        warnings.simplefilter("ignore")  # reported as a doubt
        found = ep(nonzero(problem).with_target(flat(problem.target)), device=device)
    assert found.log_partition is not None
    value = float(found.log_partition)
    value = value if math.isfinite(value) else math.nan
    doubt, _ = tie(problem)
    if not doubt and not found.converged:
        doubt = f"expectation propagation has {found.status}"
    elif not doubt and value < 1:
        doubt = "so few solutions are beyond what expectation propagation can tell from none"
    elif not doubt and found.variances == "scalar":
        doubt = "the problem is large, and one variance for all weights was kept: exact for random patterns only"
    return Count(value, ERROR, "ep", doubt)


def emptiness(problem: Perceptron) -> str:
    """Return in a sentence why no ±1 weights meet every constraint; '' if that is not proved.

    >>> emptiness(Perceptron([[1, 1, 1], [-1, -1, -1]]))
    'every one of the 2^3 weights was looked at, and the best miss 1 of 2 constraints.'
    """
    if problem.n > LARGEST:
        return contradiction(problem)
    missed, _ = fewest_missed(problem)
    looked = f"every one of the 2^{problem.n} weights was looked at"
    return f"{looked}, and the best miss {missed} of {problem.m} constraints." if missed else ""
