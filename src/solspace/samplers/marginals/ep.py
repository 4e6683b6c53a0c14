"""Marginals of a perceptron problem on any patterns, and the number of its solutions, by expectation propagation.

The updates are in `propagation`, the Gaussian with sites that they need in `gaussian`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.problem import Perceptron
from solspace.samplers.constraints import check_measure, without, zero_rows
from solspace.samplers.device import resolve
from solspace.samplers.marginals.gaussian import Gaussian
from solspace.samplers.marginals.gpu_gaussian import GpuGaussian
from solspace.samplers.marginals.marginals import Marginals, Status, ending, rows_of
from solspace.samplers.marginals.propagation import Propagation, ScalarGaussian
from solspace.samplers.options import VARIANCES, Config, choice, count, device_option, option
from solspace.system.checks import instance, number

LARGE = 2e10
"""Operations of an iteration, m² n or n² m, above which one variance a site costs too much."""


@dataclass(frozen=True, kw_only=True)
class EPConfig(Config):
    """Options of `ep`, where they are documented."""

    tolerance: float = option(1e-10, number(positive=True), "mean squared difference of the two means at which to stop")
    max_iterations: int = count(300, "limit of iterations in one attempt")
    variances: str = choice(
        "auto", VARIANCES, "full (one a site), scalar (one for all), or auto: full where it is affordable"
    )
    device: str = device_option()


def ep(
    problem: Perceptron,
    field: ArrayLike | None = None,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 300,
    variances: str = "auto",
    device: str = "cpu",
) -> Marginals:
    """Compute the marginals of a target tilted by exp(⟨h, w⟩), by expectation propagation: ±1 weights, any patterns.

    Parameters
    ----------
    problem : Perceptron
        Patterns and target.
    field : array_like, optional
        h, (n,) or (k, n); zero by default.
    tolerance : float, default 1e-10
        Stop when the mean squared difference between the moments of sites and Gaussian is below `tolerance` times the mean
        variance of the weights.
    max_iterations : int, default 300
        Limit of one attempt; a field that does not converge is retried with smaller steps, four times in all.
    variances : {"auto", "full", "scalar"}, default "auto"
        One variance for each site (2 m² n operations an iteration for m < n); one for all weights and one for all
        constraints; or full where it is affordable.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to compute; on a GPU in double precision, all fields in one batch.

    Returns
    -------
    Marginals
        With `log_partition`; NaN where the iteration did not converge.

    Raises
    ------
    ValueError
        If the prior is not binary.

    Warns
    -----
    UserWarning
        If a field did not converge.

    Examples
    --------
    >>> problem = Perceptron.random(n=13, alpha=0.4, rng=2)
    >>> found, exact = ep(problem), problem.enumerate()
    >>> bool(abs(found.mean - exact.marginals).max() < 0.1), bool(abs(found.log_partition - exact.log_partition) < 0.01)
    (True, True)
    """
    check_measure(instance(Perceptron)("problem", problem))
    config = EPConfig(tolerance=tolerance, max_iterations=max_iterations, variances=variances, device=device)
    rows, single = rows_of(problem, field)
    made = propagation(problem, len(rows), config.variances, resolve(device))
    made.field[...] = rows
    every = np.arange(len(rows))
    with np.errstate(all="ignore"):
        effort = made.run(np.full(len(rows), config.tolerance), np.full(len(rows), config.max_iterations), every)
    status = [ending(*flags) for flags in zip(effort.converged, effort.blown)]
    missed = [word for word in status if word is not Status.CONVERGED]
    if missed:
        warnings.warn(
            f"expectation propagation: {len(missed)} of {len(rows)} fields {missed[0]}. Try a lower load or margin, more "
            "max_iterations, or ss.anneal, which needs no convergence.",
            stacklevel=2,
        )
    found = Marginals(
        mean=made.mean,
        variance=made.spread,
        status=status,
        iterations=effort.iterations,
        variances="scalar" if made.scalar else "full",
        log_partition=np.where(effort.converged, made.log_partition, np.nan),
    )
    return found.of(0) if single else found


def propagation(problem: Perceptron, k: int, variances: str = "auto", where: str = "cpu") -> Propagation:
    """Return expectation propagation for `k` fields, with the variances that are asked for or affordable."""
    if problem.target.prior.name != "binary":
        raise ValueError(f"ep takes ±1 weights, but the target's prior is {problem.target.prior}; use amp for it.")
    zero = zero_rows(problem)
    if len(zero):
        raise ValueError(
            f"constraint {zero[0] + 1} is all zero, which says nothing about the weights and which expectation propagation "
            f"cannot take; {without(zero, problem.m)}."
        )
    few, many = sorted((problem.m, problem.n))
    if variances == "scalar" or (variances == "auto" and float(few) ** 2 * many > LARGE):
        return Propagation(problem, k, ScalarGaussian(problem), scalar=True)
    return Propagation(problem, k, GpuGaussian(problem) if where == "gpu" else Gaussian(problem))
