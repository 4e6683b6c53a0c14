"""How a computation ended; the value of each status is the sentence the user reads."""

from __future__ import annotations

from enum import Enum


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
    NO_ROOT = "the equation has no solution in the interval searched."

    @property
    def ok(self) -> bool:
        """True when the value may be used without a second thought."""
        return self is Status.CONVERGED

    def __str__(self) -> str:
        return self.value
