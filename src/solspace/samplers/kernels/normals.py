"""Normal deviates as a function of a counter, the same bits on every processor and on a device.

A word of Philox (`kernels.philox`) becomes one deviate: its lowest bit the sign, the others, with a one behind them, an
odd number v < 2^32 with p = v/2^32 the chance of a larger deviate, so that |z| = -Φ⁻¹(p/2). This function is smooth in
log p: in each of 32 cells of each octave of v a cubic in the place within the cell is right to 1e-7. Coefficients come from a
table, and the cubic is evaluated in single precision one rounded operation at a time, so that nothing is left to the
compiler. Block b of step t of sample j holds the deviates of the sites 4 b … 4 b + 3.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numba import float32, int64, uint32, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.philox import NOISE, philox_words
from solspace.system.compiled import njit

CELLS = 32
"""Cells of an octave."""


@lru_cache(maxsize=1)
def cubics() -> Array:
    """Return the coefficients (32 · CELLS, 4) float32 of the cubics, lowest power first, octave by octave from v = 1 on.

    >>> table = cubics()
    >>> bool(abs(table[-CELLS, 0] - 0.6744898) < 1e-6)  # P(|z| > 0.674) = 1/2
    True
    """
    from scipy.special import ndtri

    nodes = 0.5 - 0.5 * np.cos(np.pi * (np.arange(4) + 0.5) / 4)
    octave, cell = np.divmod(np.arange(32 * CELLS), CELLS)
    p = 2.0 ** (octave[:, None] - 32) * (1 + (cell[:, None] + nodes) / CELLS)
    return (-ndtri(p / 2) @ np.linalg.inv(np.vander(nodes, 4, increasing=True)).T).astype(np.float32)


@njit(nogil=True)
def normals(key: np.uint64, samples: Array, steps: Array, table: Array, first: int, last: int, out: Array) -> None:
    """Fill rows 4 first … 4 last - 1 of the columns `samples` of `out` (n, width) with the deviates of their `steps`."""
    n = out.shape[0]
    for block in range(first, last):
        for place in range(samples.size):
            words = philox_words(block, steps[place], samples[place], NOISE, key)
            for part in range(4):
                site = 4 * block + part
                if site < n:
                    odd = uint32(words[part] | uint64(1))
                    octave = int64(0)
                    for shift in (16, 8, 4, 2, 1):
                        if odd >> uint32(octave + shift) != uint32(0):
                            octave += shift
                    mantissa = uint32(uint64(odd) << uint64(31 - octave)) & uint32(0x7FFFFFFF)
                    row = table[CELLS * octave + int64(mantissa >> uint32(26))]
                    t = float32(mantissa & uint32(0x3FFFFFF)) * float32(2.0**-26)
                    z = float32(
                        row[0] + float32(t * float32(row[1] + float32(t * float32(row[2] + float32(t * row[3])))))
                    )
                    out[site, samples[place]] = z if words[part] & uint64(1) else -z
