"""Power moments of a Gaussian on the half line, and the first two derivatives of their logarithm.

    I_b(x) = int_0^inf u^b phi(u - x) du = Gamma(b + 1) / sqrt(2 pi) exp(-x^2 / 4) D_{-b-1}(-x)

for every real b >= 0 and every x. With rho = (log I_b)' the mean of u under the weight is K = rho + x and
(log I_b)'' = b - rho K; both forms cancel somewhere, so values are read from a table (`power_table`) of functions
that do not. At b = 0 (the normal distribution function) rho falls like exp(-x^2 / 2) on the positive side: there
the table gives the Mills ratio and the exponential is taken apart.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solspace.numerics.power_table import LOG_SQRT_TWO_PI, PowerTable, power_table

Array = NDArray[np.float64]
Moments = tuple[Array, Array, Array]
BLOCK = 1 << 14


def log_power_moment(x: ArrayLike, beta: float) -> Moments:
    """Return log I_b(x) and its first two derivatives for real `beta` >= 0, elementwise.

    Relative accuracy is near rounding from x = -infinity to +infinity; float32 in, float32 out.

    Examples
    --------
    >>> log_i, rho, curvature = log_power_moment([-1000.0, 0.0], 0)
    >>> rho
    array([1.00000100e+03, 7.97884561e-01])
    """
    dtype = np.float32 if np.result_type(x) == np.float32 else np.float64
    values = np.asarray(x, dtype=np.float64)
    flat = np.ascontiguousarray(values).reshape(-1)
    results = power_moments(flat, float(beta))
    log_i, rho, curvature = (r.reshape(values.shape).astype(dtype, copy=False)[()] for r in results)
    return log_i, rho, curvature


def power_moments(x: Array, beta: float, scaled: bool = False) -> Moments:
    """Return (log I, rho, curvature) of a flat float64 array; `scaled` leaves out the -x^2/2 of log I at x < 0."""
    table = power_table(beta)
    return _in_blocks(x, table, scaled)


def _in_blocks(x: Array, table: PowerTable, scaled: bool) -> Moments:
    out = np.empty((3, x.size))
    for start in range(0, x.size, BLOCK):
        block = x[start : start + BLOCK]
        evaluate = _normal if table.beta == 0.0 else _power
        out[:, start : start + BLOCK] = evaluate(block, table, scaled)
    return out[0], out[1], out[2]


def _power(x: Array, table: PowerTable, scaled: bool) -> Moments:
    """Unpack the table for b > 0, by NumPy alone."""
    s = table.scale + np.abs(x)
    log_s = np.log(s)
    negative = x < 0
    first, second, third = _polynomials(s, negative, table)
    reciprocal = 1.0 / s
    first *= reciprocal
    rho = np.where(negative, first - x, first)
    curvature = np.where(negative, third, third * reciprocal * reciprocal)
    below = second - (table.beta + 1.0) * log_s
    if not scaled:
        below -= 0.5 * x * x
    return np.where(negative, below, second + table.beta * log_s), rho, curvature


def _normal(x: Array, table: PowerTable, scaled: bool) -> Moments:
    """Unpack the table for b = 0: log Phi, phi / Phi and its derivative."""
    size = np.abs(x)
    s = table.scale + size
    first, _, third = _polynomials(s, np.ones(x.shape, dtype=bool), table)
    mills = 1.0 / (first / s + size)  # Phi(-|x|) / phi(x)
    with np.errstate(under="ignore"):
        density = np.exp(-0.5 * x * x - LOG_SQRT_TWO_PI)
        upper = density * mills
        rho = np.where(x < 0, 1.0 / mills, density / (1.0 - upper))
        curvature = np.where(x < 0, third, -rho * (rho + x))
    below = np.log(mills) - LOG_SQRT_TWO_PI
    if not scaled:
        below -= 0.5 * x * x
    return np.where(x < 0, below, np.log1p(-upper)), rho, curvature


def _polynomials(s: Array, negative: NDArray[np.bool_], table: PowerTable) -> Array:
    position = table.cells * table.scale / s
    cell = np.minimum(position.astype(np.int64), table.cells - 1)
    y = position - (cell + 0.5)
    coefficients = table.coefficients[cell + table.cells * negative]
    value = coefficients[:, :, -1]
    for k in range(coefficients.shape[2] - 2, -1, -1):
        value = value * y[:, None] + coefficients[:, :, k]
    return np.ascontiguousarray(value.T)
