"""Marginals of a perceptron problem under a Gaussian observation, by approximate message passing.

`amp(problem, field, time)` is the Bayesian denoiser of stochastic localization: the mean of the target tilted by
exp(⟨h, w⟩ - t |w|²/2). The equations are in `cpu`, damping and convergence in `relaxation`.
"""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import check_measure
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.marginals import Marginals, Status, ending, rows_of
from solspace.samplers.marginals.relaxation import Relaxation
from solspace.samplers.options import DAMPING, PRECISIONS, VARIANCE, Option, checked, choose_variances, count, named
from solspace.system.checks import instance, number, reals, shown

OPTIONS = {
    "tolerance": Option(1e-12, number(positive=True), "mean squared change at which to stop"),
    "max_iterations": count(1000, "limit of undamped iterations"),
    "damping": DAMPING,
    "variances": VARIANCE,
    "precision": named("float64", PRECISIONS, "float64 or float32"),
}


def amp(
    problem: Perceptron,
    field: ArrayLike | None = None,
    time: ArrayLike = 0.0,
    *,
    tolerance: float = 1e-12,
    max_iterations: int = 1000,
    damping: float | str = "auto",
    variances: str = "auto",
    precision: str = "float64",
) -> Marginals:
    """Return the marginals of `problem`'s target tilted by exp(⟨h, w⟩ - t |w|²/2).

    Parameters
    ----------
    field
        h, (n,) or (k, n); zero unless given.
    time
        t, a number or (k,). It matters only beside the field; ±1 and spherical weights have a fixed norm.
    tolerance
        Stop when the mean squared change of the means is below `tolerance` times the mean variance of the weights.
    max_iterations
        Limit of undamped iterations; stronger damping is given more, in proportion.
    damping
        Share of the old state kept at every iteration, or "auto": none, and more where it is needed.
    variances
        "scalar", "full" (a variance for every constraint and weight, as Algorithm 1 prints them), or "auto": by the
        data.
    precision
        "float64" or "float32".

    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> marginals = amp(problem)
    >>> marginals.mean.shape, str(marginals.status)
    ((501,), 'converged')
    """
    asked = checked(OPTIONS, locals())
    check_measure(instance(Perceptron)("problem", problem))
    rows, single = rows_of(problem, field)
    k, automatic = len(rows), asked["damping"] == "auto"
    chosen = choose_variances(problem, asked["variances"])
    messages = Messages(problem, k, asked["precision"], full=chosen == "full", spreads=True)
    messages.field[:, :k], messages.time[...] = rows.T, _times(time, k)
    relaxation = Relaxation(messages, 0.0 if automatic else asked["damping"], automatic)
    with np.errstate(all="ignore"):
        effort = relaxation.run(np.full(k, asked["tolerance"]), np.full(k, asked["max_iterations"]), np.arange(k))
    status = [ending(*flags) for flags in zip(effort.converged, effort.blown)]
    missed = [word for word in status if word is not Status.CONVERGED]
    if missed:
        cure = cures(problem, damped=automatic and missed[0] is Status.DIVERGED)
        warnings.warn(f"message passing: {len(missed)} of {k} fields {missed[0]}. {cure}", stacklevel=2)
    assert messages.spread is not None
    found = Marginals(
        mean=np.ascontiguousarray(messages.mean[:, :k].T),
        variance=np.ascontiguousarray(messages.spread[:, :k].T),
        status=status,
        iterations=effort.iterations,
        instability=messages.instability[:k],
        damping=relaxation.damping,
        variances=chosen,
    )
    return found.of(0) if single else found


def cures(problem: Perceptron, damped: bool) -> str:
    """Return what to do where message passing fails on `problem`; `damped` is whether every damping was tried."""
    ways = [] if damped else ["damping=0.9 or 0.98 with more max_iterations"]
    if not problem.looks_random():
        ways.append("centring the patterns and rescaling their rows to norm √n")
    ways.append("a lower load")
    if problem.target.prior.name == "binary":
        ways.append("ss.anneal, which needs no convergence")
    return f"Try {', or '.join(ways)}."


def _times(time: ArrayLike, k: int) -> Array:
    times = reals("time", time)
    if times.shape not in ((), (k,)) or not (np.isfinite(times) & (times >= 0)).all():
        raise ValueError(
            f"time must be a finite number of at least 0, or one for each of {k} fields; got {shown(time)}."
        )
    return times
