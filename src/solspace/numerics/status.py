"""How a computation ended; the value of each status is the sentence the user reads."""

from __future__ import annotations

from enum import Enum

ACCURATE = 1e-8
"""Largest relative error of an integral that needs no word."""


class Status(Enum):
    """The end of an iteration or an integral.

    >>> Status.CONVERGED.ok
    True
    >>> print(Status.MAX_STEPS)
    the iteration did not settle within its number of steps; the value is the last one reached.
    """

    CONVERGED = "converged."
    MAX_STEPS = "the iteration did not settle within its number of steps; the value is the last one reached."
    INACCURATE = (
        "the integrals did not reach their accuracy even on the finest grid: give the potential's kinks and jumps as "
        "breakpoints, and take `accuracy` as the size of the error."
    )

    @classmethod
    def of_error(cls, error: float) -> Status:
        """Return the status of an integral with this relative error.

        >>> Status.of_error(1e-12).ok, Status.of_error(float("nan")).ok
        (True, False)
        """
        return cls.CONVERGED if error < ACCURATE else cls.INACCURATE

    def then(self, other: Status) -> Status:
        """Return the first of the two that is worth a word."""
        return other if self.ok else self

    @property
    def ok(self) -> bool:
        """True when the value may be used without a second thought."""
        return self is Status.CONVERGED

    def __str__(self) -> str:
        return self.value
