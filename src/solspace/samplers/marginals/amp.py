"""Marginals of a perceptron problem under a Gaussian observation, by approximate message passing.

`amp(problem, field, time)` is the Bayesian denoiser of stochastic localization: the mean of the target tilted by
exp(⟨h, w⟩ - t |w|²/2). The equations are in `messages`, damping and convergence in `relaxation`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.relaxation import Relaxation
from solspace.samplers.options import DAMPING, PRECISIONS, VARIANCE, Option, checked, choose_variances, count, named
from solspace.system.checks import instance, number, reals, shown

TRY = (
    "Try damping=0.9 or 0.98 with more max_iterations, centre and rescale the patterns' rows to norm √n, a lower load, "
    "or ss.anneal, which needs no convergence."
)


OPTIONS = {
    "tolerance": Option(1e-12, number(positive=True), "mean squared change at which to stop"),
    "max_iterations": count(1000, "limit of undamped iterations"),
    "damping": DAMPING,
    "variances": VARIANCE,
    "precision": named("float64", PRECISIONS, "float64 or float32"),
}


class Status(Enum):
    """How message passing ended; the value says it in words."""

    CONVERGED = "converged"
    SLOW = "not converged: stopped at the iteration limit while still changing a little; the marginals are approximate"
    DIVERGED = "diverged: message passing blew up at every damping; the marginals are those before it did"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class Marginals:
    """Means and variances of the weights, (n,) or (k, n) like the field they were asked for."""

    mean: Array
    variance: Array
    status: Status | list[Status]
    iterations: Any
    instability: Any
    """λ = α mean(Δ²) mean(g'²): message passing converges where it is below 1."""
    damping: Any
    variances: str
    """"scalar" or "full"."""

    @property
    def converged(self) -> Any:
        """Whether each field's iteration converged: bool or (k,) bools."""
        if isinstance(self.status, Status):
            return self.status is Status.CONVERGED
        return np.array([status is Status.CONVERGED for status in self.status])

    @property
    def overlap(self) -> Any:
        """|m|²/n."""
        return (self.mean.astype(float) ** 2).mean(axis=-1)


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
    rows, single = _rows(instance(Perceptron)("problem", problem), field)
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
        warnings.warn(f"message passing: {len(missed)} of {k} fields {missed[0]}. {TRY}", stacklevel=2)
    one: Any = (lambda values: values[0]) if single else (lambda values: values)
    assert messages.spread is not None
    return Marginals(
        mean=one(np.ascontiguousarray(messages.mean[:, :k].T)),
        variance=one(np.ascontiguousarray(messages.spread[:, :k].T)),
        status=one(status),
        iterations=one(effort.iterations),
        instability=one(messages.instability[:k]),
        damping=one(relaxation.damping),
        variances=chosen,
    )


def ending(converged: bool, blown: bool) -> Status:
    """Return the status of a relaxation that ended so."""
    return Status.CONVERGED if converged else Status.DIVERGED if blown else Status.SLOW


def _times(time: ArrayLike, k: int) -> Array:
    times = reals("time", time)
    if times.shape not in ((), (k,)) or not (np.isfinite(times) & (times >= 0)).all():
        raise ValueError(
            f"time must be a finite number of at least 0, or one for each of {k} fields; got {shown(time)}."
        )
    return times


def _rows(problem: Perceptron, field: ArrayLike | None) -> tuple[Array, bool]:
    field = np.zeros(problem.n) if field is None else reals("field", field)
    if field.ndim not in (1, 2) or field.shape[-1] != problem.n or field.size == 0:
        raise ValueError(f"field must have shape ({problem.n},) or (k, {problem.n}); got {field.shape}.")
    if not np.isfinite(field).all():
        raise ValueError("field must be finite.")
    return np.atleast_2d(field), field.ndim == 1
