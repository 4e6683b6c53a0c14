"""Power moments of a Gaussian on the half line, and the first two derivatives of their logarithm.

    I_b(x) = int_0^inf u^b phi(u - x) du = Gamma(b + 1) / sqrt(2 pi) exp(-x^2 / 4) D_{-b-1}(-x)

for every real b >= 0 and every x. With rho = (log I_b)' the mean of u under the weight is K = rho + x and
(log I_b)'' = b - rho K; both forms cancel somewhere, so values are read from a table (`power_table`) of functions
that do not, by compiled loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Reals
from solspace.numerics.power_table import power_table
from solspace.system.threads import share

TILE = 1024


def common_precision(*given: ArrayLike) -> type[np.floating]:
    """Return float32 if every array among `given` is float32 (plain Python numbers do not count), else float64.

    Examples
    --------
    >>> common_precision(np.zeros(3, dtype=np.float32), 0.5).__name__
    'float32'
    """
    values = [v if isinstance(v, (np.ndarray, np.generic, float, int)) else np.asarray(v) for v in given]
    return np.float32 if np.result_type(*values) == np.float32 else np.float64


def log_power_moment(x: ArrayLike, beta: float) -> tuple[Reals, Reals, Reals]:
    """Return log I_b(x) and its first two derivatives for real `beta` >= 0, elementwise.

    Relative accuracy is near rounding from x = -infinity to +infinity; float32 in, float32 out.

    Examples
    --------
    >>> log_i, rho, curvature = log_power_moment([-1000.0, 0.0], 0)
    >>> rho
    array([1.00000100e+03, 7.97884561e-01])
    """
    return gaussian_power(x, 1.0, beta)


def gaussian_power(
    omega: ArrayLike, variance: ArrayLike, beta: float, scaled: bool = False
) -> tuple[Reals, Reals, Reals]:
    """Return log E[s^beta; s > 0] of s ~ N(omega, variance) and its first two derivatives in omega, elementwise.

    `scaled` leaves out the -omega^2 / (2 variance) of the logarithm at omega < 0.

    Examples
    --------
    >>> log_z, g, dg = gaussian_power(0.3, 0.2, 2.0)
    >>> round(float(g), 12)
    2.825037003824
    """
    if not beta >= 0.0:
        raise ValueError(f"the exponent beta must be at least 0; got {beta!r}.")
    dtype = common_precision(omega, variance)
    shape = np.broadcast_shapes(np.shape(omega), np.shape(variance))
    field = np.asarray(omega, dtype=dtype)
    if field.shape != shape:
        field = np.broadcast_to(field, shape).copy()
    field = np.ascontiguousarray(field).reshape(-1)
    spread = _tile(np.asarray(variance), shape)
    results = _moments(field, spread, float(beta), scaled, True)
    log_z, g, dg = (r.reshape(shape)[()] for r in results)
    return log_z, g, dg


def gaussian_power_derivatives(
    omega: Reals, variance: ArrayLike, beta: float, out: tuple[Reals, Reals] | None = None
) -> tuple[Reals, Reals]:
    """Return the two derivatives of `gaussian_power` alone, fast, in the precision of `omega`.

    `omega` is (m, k), `variance` a scalar, (k,) or (m, k). With `out`, two C-contiguous arrays (m, k) of the same type,
    nothing of that size is allocated.

    Examples
    --------
    >>> g, dg = gaussian_power_derivatives(np.zeros((2, 3), dtype=np.float32), 1.0, 2.0)
    >>> g.shape, g.dtype
    ((2, 3), dtype('float32'))
    """
    dtype = np.float32 if omega.dtype == np.float32 else np.float64
    field: Reals = np.ascontiguousarray(omega, dtype=dtype)
    g, dg = out if out is not None else (np.empty_like(field), np.empty_like(field))
    for result in (g, dg):
        if result.shape != field.shape or result.dtype != dtype or not result.flags.c_contiguous:
            raise ValueError(
                f"out must hold two C-contiguous arrays of shape {field.shape} and type {np.dtype(dtype)}."
            )
    spread = _tile(np.asarray(variance), field.shape)
    flat, flat_g, flat_dg = field.reshape(-1), g.reshape(-1), dg.reshape(-1)
    if dtype == np.float32:
        _single(flat, flat_g, flat_dg, spread, float(beta))
    else:
        _moments(flat, spread, float(beta), False, False, (flat_g, flat_dg))
    return g, dg


def _tile(variance: Reals, shape: tuple[int, ...]) -> Reals:
    """Return the variance as long as the flat field, or as a tile that repeats along it."""
    if variance.size == 1:
        return np.full(TILE, variance.reshape(-1)[0])
    if variance.shape == shape[-1:]:
        return np.tile(variance, -(-TILE // variance.size))
    return np.ascontiguousarray(np.broadcast_to(variance, shape)).reshape(-1)


def _moments(
    field: Reals, spread: Reals, beta: float, scaled: bool, want_log: bool, out: tuple[Reals, Reals] | None = None
) -> tuple[Reals, Reals, Reals]:
    """Return (log Z, g, dg) of a flat field by way of double precision; log Z is empty unless wanted.

    A variance of zero, as of columns that only fill up a block, has infinities that nobody reads; threads do not
    inherit what their caller ignores, so each task says it again.
    """
    from solspace.numerics.power_kernels import Reading, moments

    table = power_table(beta)
    g, dg = out if out is not None else (np.empty_like(field), np.empty_like(field))
    log_z = np.empty(field.size if want_log else 0, dtype=field.dtype)
    full = spread.size == field.size
    reading = Reading(table.coefficients, table.scale, beta, 0.0 if scaled else 0.5, want_log)

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        own = np.asarray(spread[part] if full else spread, dtype=np.float64)
        with np.errstate(all="ignore"):
            shift = 0.5 * beta * np.log(own) if want_log else own
            inverse = 1.0 / np.sqrt(own)
        moments(reading, field[part], inverse, shift, log_z[part], g[part], dg[part])

    share(task, field.size, TILE if full else spread.size)
    return log_z, g, dg


def _single(field: Reals, g: Reals, dg: Reals, spread: Reals, beta: float) -> None:
    """Fill (g, dg) of a flat float32 field by the vectorised loops; zero variances as in `_moments`."""
    from solspace.numerics import power_kernels as kernels
    from solspace.numerics.power_single import normal_mean, power_nodes

    full = spread.size == field.size
    block = TILE if full else spread.size
    if beta > 0.0:
        nodes = power_nodes(beta)
        loop: Any = kernels.derivatives_single
        precision: type[np.floating] = np.float32
        settings: tuple[Any, ...] = (nodes.packed, np.float32(nodes.reach), nodes.far)
    else:
        scale, mean = normal_mean()
        loop, precision = kernels.normal_derivatives_single, np.float64
        settings = (mean, np.float32(scale))

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        with np.errstate(all="ignore"):
            inverse = 1.0 / np.sqrt(spread[part] if full else spread, dtype=precision)
        loop(field[part], inverse, block, *settings, g[part], dg[part])

    share(task, field.size, block)
