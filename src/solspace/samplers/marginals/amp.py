"""Marginals of a perceptron problem under a Gaussian observation, by approximate message passing.

`amp(problem, field, time)` is the Bayesian denoiser of stochastic localization: the mean of the target tilted by
exp(⟨h, w⟩ - t |w|²/2). The equations, damping and convergence are in `messages`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields, replace
from enum import StrEnum

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import PRECISIONS, Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import check_measure, choose_variances, variances_option
from solspace.samplers.marginals.messages import Effort, Messages, Relaxation
from solspace.system.checks import Config, choice, count, damping_option, instance, number, option, reals, shown
from solspace.system.plain import html_table


class Status(StrEnum):
    """How message passing ended, in words."""

    CONVERGED = "converged"
    SLOW = "not converged: stopped at the iteration limit while still changing a little; the marginals are approximate"
    DIVERGED = "diverged: message passing blew up at every damping; the marginals are those before it did"


@dataclass(frozen=True)
class Marginals:
    """Marginals of the weights in one or several fields.

    Parameters
    ----------
    mean, variance : ndarray
        (n,) or (k, n), like the field.
    status : Status or list of Status
        How the iteration ended, for each field.
    iterations : int or ndarray
        Iterations, () or (k,).
    variances : str
        "scalar" or "full".
    instability : float or ndarray, optional
        AMP's λ = α mean(Δ²) mean(g'²); the iteration converges where λ < 1.
    damping : float or ndarray, optional
        Damping used by AMP.
    log_partition : float or ndarray, optional
        EP's log Z = log Σ_w exp(-ΣU/T + ⟨h, w⟩); for the uniform potential without field, the log number of solutions. Weights
        count as in `Levels`; real ones are integrated over their prior.
    intercept, intercept_variance : float or ndarray, optional
        EP's mean and variance of the intercept.
    """

    mean: Array
    variance: Array
    status: Status | list[Status]
    iterations: int | Array
    variances: str
    instability: float | Array | None = None
    damping: float | Array | None = None
    log_partition: float | Array | None = None
    intercept: float | Array | None = None
    intercept_variance: float | Array | None = None

    def of(self, row: int) -> Marginals:
        """Return the marginals of one of k fields.

        Parameters
        ----------
        row : int
            Number of the field.

        Returns
        -------
        Marginals
            Its marginals.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "variances"}
        return replace(self, **{name: value[row] for name, value in own.items() if value is not None})

    @property
    def converged(self) -> bool | Array:
        """Whether each field's iteration converged: bool or (k,) bools."""
        if isinstance(self.status, Status):
            return self.status is Status.CONVERGED
        return np.array([status is Status.CONVERGED for status in self.status])

    @property
    def overlap(self) -> float | Array:
        """|m|²/n."""
        overlaps: float | Array = (self.mean.astype(float) ** 2).mean(axis=-1)
        return overlaps

    def _repr_html_(self) -> str:
        converged = np.atleast_1d(self.converged)
        single = isinstance(self.status, Status)
        verdict = str(self.status) if single else f"{converged.sum()} of {len(converged)} converged"
        shape = " × ".join(map(str, self.mean.shape)) + ("" if single else " (fields × weights)")
        named = {"overlap |m|²/n": self.overlap, "iterations": self.iterations, "instability λ": self.instability}
        named |= {"damping": self.damping, "log Z": self.log_partition, "intercept": self.intercept}
        mean_of = "" if single else f" (mean of {len(converged)})"
        rows = [(name, f"{np.mean(value):.5g}{mean_of}") for name, value in named.items() if value is not None]
        return html_table(
            "Marginals", [("means, variances", shape), *rows], verdict=verdict, good=bool(converged.all())
        )


@dataclass(frozen=True, kw_only=True)
class AmpConfig(Config):
    """Options of `amp`, which documents them: defaults and checks."""

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
        Patterns and target; any prior, clamped and sample weights, but no intercept.
    field : array_like, optional
        h, (n,) or (k, n); zero by default. At clamped weights it changes nothing.
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
    if problem.intercept is not None:
        raise ValueError("amp takes no intercept; use ss.ep, which does.")
    k, automatic = len(rows), config.damping == "auto"
    times = times_of(time, k)
    chosen = choose_variances(problem, config.variances)
    messages = Messages(problem, k, config.precision, full=chosen == "full", spreads=True)
    messages.field[:, :k], messages.time[...] = rows[:, messages.factors.free].T, times
    relaxation = Relaxation(messages, 0.0 if isinstance(config.damping, str) else config.damping, automatic)
    with np.errstate(all="ignore"):
        effort = relaxation.run(np.full(k, config.tolerance), np.full(k, config.max_iterations), np.arange(k))
    if failed := failures("message passing", effort):
        cure = cures(problem, damped=automatic and "diverged" in failed)
        warnings.warn(f"{failed}. {cure}", stacklevel=2)
    assert messages.spread is not None
    found = Marginals(
        mean=messages.factors.whole(np.ascontiguousarray(messages.mean[:, :k].T)),
        variance=messages.factors.whole(np.ascontiguousarray(messages.spread[:, :k].T), fill=False),
        status=statuses(effort),
        iterations=effort.iterations,
        instability=messages.instability[:k],
        damping=relaxation.damping,
        variances=chosen,
    )
    return found.of(0) if single else found


def cures(problem: Perceptron, damped: bool) -> str:
    """Return what to try if message passing fails; `damped` is whether every damping was tried."""
    ways = [] if damped else ["damping=0.9 or 0.98 with more max_iterations"]
    if not problem.looks_random():
        ways.append("centring the patterns and rescaling their rows to norm √n")
    ways.append("a lower load")
    if problem.target.prior.name in ("binary", "levels"):
        ways.append("ss.anneal, which needs no convergence")
    return f"Try {', or '.join(ways)}."


def statuses(effort: Effort) -> list[Status]:
    return [
        Status.CONVERGED if converged else Status.DIVERGED if diverged else Status.SLOW
        for converged, diverged in zip(effort.converged, effort.diverged)
    ]


def failures(method: str, effort: Effort) -> str:
    """Return a sentence about the fields that did not converge, '' if all did."""
    failed = [status for status in statuses(effort) if status is not Status.CONVERGED]
    return f"{method}: {len(failed)} of {len(effort.converged)} fields {failed[0]}" if failed else ""


def times_of(time: ArrayLike, k: int) -> Array:
    """Return times (k,) for a number or (k,) of them."""
    times = reals("time", time)
    if times.shape not in ((), (k,)) or not (np.isfinite(times) & (times >= 0)).all():
        words = f"a finite number of at least 0, or one for each of {k} fields"
        raise ValueError(f"time must be {words}; got {shown(time)}.")
    return np.broadcast_to(times, (k,))


def rows_of(problem: Perceptron, field: ArrayLike | None) -> tuple[Array, bool]:
    """Return fields (k, n) for a field (n,), (k, n) or None, and whether it was a single one."""
    rows = np.zeros(problem.n) if field is None else reals("field", field)
    if rows.ndim not in (1, 2) or rows.shape[-1] != problem.n or rows.size == 0:
        raise ValueError(f"field must have shape ({problem.n},) or (k, {problem.n}); got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError("field must be finite.")
    return np.atleast_2d(rows), rows.ndim == 1
