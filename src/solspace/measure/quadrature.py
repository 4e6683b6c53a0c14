"""The channel of any weight, by quadrature that first finds where the integrand lives.

The line is cut at the weight's breakpoints. On a piece (a, b) the variable is s = a + l [softplus(t) - softplus(t - L)]
with L = (b - a) / l: linear inside, exponentially close to either end at large |t|, so that a jump or a power s^beta at an
end becomes a smooth exponential tail. A scan in t finds the peak of

    h(t) = log W(s) - (s - omega)^2 / (2 V) + log ds/dt,

a zoom sharpens it, bisection finds where h falls 42 below the peak, and the trapezoidal rule on that range, which
converges exponentially, is doubled until the moments stand still. The Gaussian's exponent is expanded around the end
of the piece nearest to the mass: at x = -1000 the mass sits 10^-3 from the end and (s - omega)^2 alone would lose six digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
LogWeight = Callable[[Array], ArrayLike]

ELEMENTS = 1 << 19  # size of the largest temporary
DROP = 42.0
LEVELS = 9
FIRST = 33
