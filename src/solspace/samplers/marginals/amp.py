"""Marginals of a perceptron problem under a Gaussian observation, by approximate message passing.

`amp(problem, field, time)` is the Bayesian denoiser of stochastic localization: the mean of the target tilted by
exp(⟨h, w⟩ - t |w|²/2). The equations are in `cpu`, damping and convergence in `relaxation`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import check_measure
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.marginals import Marginals, Status, ending, rows_of
from solspace.samplers.marginals.relaxation import Relaxation
from solspace.samplers.options import (
    PRECISIONS,
    Config,
    choice,
    choose_variances,
    count,
    damping_option,
    option,
    variances_option,
)
from solspace.system.checks import instance, number, reals, shown


@dataclass(frozen=True, kw_only=True)
class AmpConfig(Config):
    """Options of `amp`, where they are documented."""

    tolerance: float = option(1e-12, number(positive=True), "mean squared change at which to stop")
    max_iterations: int = count(1000, "limit of undamped iterations")
    damping: float | str = damping_option()
    variances: str = variances_option()
    precision: str = choice("float64", PRECISIONS, "float64 or float32")


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
    """Compute the marginals of a target tilted by exp(⟨h, w⟩ - t |w|²/2), by approximate message passing.

    Parameters
    ----------
    problem : Perceptron
        Patterns and target.
    field : array_like, optional
        h, (n,) or (k, n); zero by default.
    time : array_like, default 0.0
        t, a number or (k,).
    tolerance : float, default 1e-12
        Stop when the mean squared change of the means is below `tolerance` times the mean variance of the weights.
    max_iterations : int, default 1000
        Limit of undamped iterations; increased in proportion for stronger damping.
    damping : float or "auto", default "auto"
        Fraction of the old state kept at every iteration; "auto" starts without and increases it as needed.
    variances : {"auto", "scalar", "full"}, default "auto"
        One variance for all weights and one for all constraints, one each, or chosen by the data.
    precision : {"float64", "float32"}, default "float64"
        Working precision.

    Returns
    -------
    Marginals
        Means, variances, status and instability λ.

    Warns
    -----
    UserWarning
        If a field did not converge.

    See Also
    --------
    ep : Expectation propagation, for patterns that are not random.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> marginals = amp(problem)
    >>> marginals.mean.shape, str(marginals.status)
    ((501,), 'converged')
    """
    config = AmpConfig(
        tolerance=tolerance, max_iterations=max_iterations, damping=damping, variances=variances, precision=precision
    )
    check_measure(instance(Perceptron)("problem", problem))
    rows, single = rows_of(problem, field)
    k, automatic = len(rows), config.damping == "auto"
    chosen = choose_variances(problem, config.variances)
    messages = Messages(problem, k, config.precision, full=chosen == "full", spreads=True)
    messages.field[:, :k], messages.time[...] = rows.T, _times(time, k)
    relaxation = Relaxation(messages, 0.0 if isinstance(config.damping, str) else config.damping, automatic)
    with np.errstate(all="ignore"):
        effort = relaxation.run(np.full(k, config.tolerance), np.full(k, config.max_iterations), np.arange(k))
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
