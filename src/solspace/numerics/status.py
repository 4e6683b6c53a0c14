"""How a computation ended; the value of each status is the sentence shown to the user."""

from __future__ import annotations

from enum import Enum

ACCURATE = 1e-8  # largest relative error of an integral that needs no warning


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
        """Return this status, or `other` if this one is `CONVERGED`."""
        return other if self.ok else self

    @property
    def ok(self) -> bool:
        """True if the computation converged."""
        return self is Status.CONVERGED

    def __str__(self) -> str:
        return self.value
