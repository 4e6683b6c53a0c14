"""What message passing returns: means and variances of the weights, and how it ended."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.system import html
from solspace.system.checks import reals


class Status(Enum):
    """How message passing ended; the value says it in words."""

    CONVERGED = "converged"
    SLOW = "not converged: stopped at the iteration limit while still changing a little; the marginals are approximate"
    DIVERGED = "diverged: message passing blew up at every damping; the marginals are those before it did"

    def __str__(self) -> str:
        return self.value


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
        EP's log Z = log Σ_w exp(-ΣU/T + ⟨h, w⟩); for the uniform potential without field, the log number of solutions.
    """

    mean: Array
    variance: Array
    status: Status | list[Status]
    iterations: Any
    variances: str
    """"scalar" or "full"."""
    instability: Any = None
    """AMP's λ = α mean(Δ²) mean(g'²): it converges where λ is below 1."""
    damping: Any = None
    log_partition: Any = None
    """EP's log Z of the tilted measure, Σ_w exp(-ΣU/T + ⟨h, w⟩): with the uniform potential and no field, the logarithm of
    the number of solutions."""

    def of(self, row: int) -> Marginals:
        """Return the marginals of one of k fields."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "variances"}
        return replace(self, **{name: value[row] for name, value in own.items() if value is not None})

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

    def _repr_html_(self) -> str:
        many = self.mean.ndim == 2
        ended = np.atleast_1d(self.converged)
        said = str(self.status) if isinstance(self.status, Status) else f"{ended.sum()} of {len(ended)} converged"

        def shown(values: Any) -> str:
            values = np.asarray(values, dtype=float)
            return f"{values:.5g}" if values.ndim == 0 else f"{values.mean():.5g} (mean of {len(values)})"

        named = {"overlap |m|²/n": self.overlap, "iterations": self.iterations, "instability λ": self.instability}
        named |= {"damping": self.damping, "log Z": self.log_partition}
        rows = [("means, variances", f"{' × '.join(map(str, self.mean.shape))}{' (fields × weights)' if many else ''}")]
        rows += [(name, shown(value)) for name, value in named.items() if value is not None]
        return html.table("Marginals", rows, verdict=said, tone=html.tone_of(bool(ended.all())))


def ending(converged: bool, blown: bool) -> Status:
    """Return the status of an iteration that ended so."""
    return Status.CONVERGED if converged else Status.DIVERGED if blown else Status.SLOW


def rows_of(problem: Perceptron, field: ArrayLike | None) -> tuple[Array, bool]:
    """Return fields (k, n) for a field (n,), (k, n) or None, and whether it was a single one."""
    rows = np.zeros(problem.n) if field is None else reals("field", field)
    if rows.ndim not in (1, 2) or rows.shape[-1] != problem.n or rows.size == 0:
        raise ValueError(f"field must have shape ({problem.n},) or (k, {problem.n}); got {rows.shape}.")
    if not np.isfinite(rows).all():
        raise ValueError("field must be finite.")
    return np.atleast_2d(rows), rows.ndim == 1
