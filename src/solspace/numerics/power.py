"""Power moments of a Gaussian on the half line, and the first two derivatives of their logarithm.

    I_b(x) = int_0^inf u^b phi(u - x) du = Gamma(b + 1) / sqrt(2 pi) exp(-x^2 / 4) D_{-b-1}(-x)

for every real b >= 0 and every x. With rho = (log I_b)' the mean of u under the weight is K = rho + x and
(log I_b)'' = b - rho K; both forms cancel somewhere, so compiled loops read values from a table (`power_table`) of
functions that do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Reals
from solspace.numerics.power_table import normal_mean, power_nodes, power_table
from solspace.system.threads import share

TILE = 1024


def common_precision(*values: ArrayLike) -> type[np.floating]:
    """Return float32 if every array among `values` is float32 (plain Python numbers do not count), else float64.

    >>> common_precision(np.zeros(3, dtype=np.float32), 0.5).__name__
    'float32'
    """
    arrays = [v if isinstance(v, (np.ndarray, np.generic, float, int)) else np.asarray(v) for v in values]
    return np.float32 if np.result_type(*arrays) == np.float32 else np.float64


def log_power_moment(x: ArrayLike, beta: float) -> tuple[Reals, Reals, Reals]:
    """Return log I_b(x) and its first two derivatives for real `beta` >= 0, elementwise.

    Relative accuracy is near rounding from x = -infinity to +infinity; float32 in, float32 out.

    >>> log_i, rho, curvature = log_power_moment([-1000.0, 0.0], 0)
    >>> rho
    array([1.00000100e+03, 7.97884561e-01])
    """
    return gaussian_power(x, 1.0, beta)


def gaussian_power(
    omega: ArrayLike, variance: ArrayLike, beta: float, scaled: bool = False
) -> tuple[Reals, Reals, Reals]:
    """Return log E[s^beta; s > 0] of s ~ N(omega, variance) and its first two derivatives in omega, elementwise.

    E[s^beta; s > 0] = V^(beta/2) I_beta(omega / sqrt(V)). `scaled` leaves out the -omega^2 / (2 variance) of the logarithm
    at omega < 0.

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
    results = np.empty_like(field), np.empty_like(field), np.empty_like(field)
    _moments(field, spread, float(beta), *results, scaled)
    log_z, g, dg = (r.reshape(shape)[()] for r in results)
    return log_z, g, dg


def gaussian_power_derivatives(
    omega: Reals, variance: ArrayLike, beta: float, out: tuple[Reals, Reals] | None = None
) -> tuple[Reals, Reals]:
    """Return the two derivatives of `gaussian_power` alone, fast, in the precision of `omega`.

    `omega` is (m, k), `variance` a scalar, (k,) or (m, k). With `out`, two C-contiguous arrays (m, k) of the same type,
    nothing of that size is allocated.

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
        _single(flat, spread, float(beta), flat_g, flat_dg)
    else:
        _moments(flat, spread, float(beta), np.empty(0), flat_g, flat_dg)
    return g, dg


def _tile(variance: Reals, shape: tuple[int, ...]) -> Reals:
    """Return the variance as long as the flat field, or as a tile that repeats along it."""
    if variance.size == 1:
        return np.full(TILE, variance.reshape(-1)[0])
    if variance.shape == shape[-1:]:
        return np.tile(variance, -(-TILE // variance.size))
    return np.ascontiguousarray(np.broadcast_to(variance, shape)).reshape(-1)


# A variance of zero, as of columns that only fill up a block, yields infinities that are not used. Threads do not inherit
# NumPy's error state, so each task sets it again.


def _moments(field: Reals, spread: Reals, beta: float, log_z: Reals, g: Reals, dg: Reals, scaled: bool = False) -> None:
    """Fill (log Z, g, dg) of a flat field by way of double precision; an empty `log_z` is left out."""
    from solspace.numerics.power_kernels import moments

    scale, coefficients = power_table(beta)
    full = spread.size == field.size

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        own = np.asarray(spread[part] if full else spread, dtype=np.float64)
        with np.errstate(all="ignore"):
            shift = 0.5 * beta * np.log(own) if log_z.size else own
            inverse = 1.0 / np.sqrt(own)
        gauss = 0.0 if scaled else 0.5
        moments(coefficients, scale, beta, gauss, field[part], inverse, shift, log_z[part], g[part], dg[part])

    share(task, field.size, TILE if full else spread.size)


def _single(field: Reals, spread: Reals, beta: float, g: Reals, dg: Reals) -> None:
    """Fill (g, dg) of a flat float32 field by the vectorised loops."""
    from solspace.numerics import power_kernels as kernels

    full = spread.size == field.size
    block = TILE if full else spread.size
    loop: Any
    settings: tuple[Any, ...]
    if beta > 0.0:
        nodes = power_nodes(beta)
        loop, settings = kernels.derivatives_single, (nodes.nodes, np.float32(nodes.reach), nodes.far)
    else:
        scale, mean = normal_mean()
        loop, settings = kernels.normal_derivatives_single, (mean, np.float32(scale))

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        with np.errstate(all="ignore"):
            inverse = 1.0 / np.sqrt(spread[part] if full else spread, dtype=np.float32 if beta else np.float64)
        loop(field[part], inverse, block, *settings, g[part], dg[part])

    share(task, field.size, block)
