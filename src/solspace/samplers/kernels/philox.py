"""Random numbers: Philox4x32-10, a function of a counter, the same on every processor.

A call of the sampler has one 64-bit key. Block number b of sweep t of chain c is the Philox image of the counter (b, t, c,
stream), so that a chain sees the same numbers whatever runs beside it, on whichever core, after whatever interruption. Proposal
number p of a sweep owns words 0 and 1 of block p/2 when p is even, 2 and 3 when it is odd; noise has the step for t and the
sample for c, exchanges the pair for b and the ladder for c. Logarithms (fdlibm's) and cubics are written out in operations that
IEEE 754 rounds in one way only, so that another machine, or a GPU, finds the same numbers.

Salmon, Moraes, Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numba
import numpy as np
from numba import float32, float64, int32, int64, uint32, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.device import DeviceArray, cupy, sent
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.kernels.machine_vectors import bits_of, float_of
from solspace.system.compiled import njit
from solspace.system.threads import split

Words = tuple[np.uint64, np.uint64, np.uint64, np.uint64]
ACCEPTANCE, ORDER, START, NOISE, EXCHANGE, TILTED, LEVEL, INTERCEPT = range(8)  # the streams of a call
CELLS = 32  # cells of an octave, in which normal deviates are cubics
_BLOCK = 128  # threads of a block on a device
_LOW = uint64(0xFFFFFFFF)
_ONE = uint64(0x3FF0000000000000)
_ROOT_HALF = uint64(0x3FE6A09E667F3BCD)  # bits of 1.0 and of sqrt(1/2)


@numba.njit(inline="always")
def philox_words(block: int, sweep: int, chain: int, stream: int, key: np.uint64) -> Words:
    """Return the four 32-bit words of a counter, each as uint64."""
    a, b, c, d = uint64(block) & _LOW, uint64(sweep), uint64(chain), uint64(stream)
    k, l = key & _LOW, key >> uint64(32)  # noqa: E741
    for _ in range(10):
        p, q = uint64(0xD2511F53) * a, uint64(0xCD9E8D57) * c
        a, b = (q >> uint64(32)) ^ b ^ k, q & _LOW
        c, d = (p >> uint64(32)) ^ d ^ l, p & _LOW
        k, l = (k + uint64(0x9E3779B9)) & _LOW, (l + uint64(0xBB67AE85)) & _LOW  # noqa: E741
    return a, b, c, d


@numba.njit(inline="always", error_model="numpy")
def _minus_log(u: float) -> float:
    # u = m 2^e with m in [sqrt(1/2), sqrt(2)): shifted by the bits of sqrt(1/2), the exponent field is e + 1023
    shifted = bits_of(u) + (_ONE - _ROOT_HALF)
    e = float64(int32(shifted >> uint64(52)) - int32(1023))
    f = float_of((shifted & uint64(0x000FFFFFFFFFFFFF)) + _ROOT_HALF) - 1.0
    s = f / (2.0 + f)
    z = s * s
    w = z * z
    odd = w * (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01))
    even = z * (
        6.666666666666735130e-01
        + w * (2.857142874366239149e-01 + w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01))
    )
    h = 0.5 * f * f
    return ((h - (s * (h + (even + odd)) + e * 1.90821492927058770002e-10)) - f) - e * 6.93147180369123816490e-01


@numba.njit(inline="always")
def _uniform(bits: np.uint64) -> float:
    """Return (2 k + 1)/2^53 with k the upper 52 of 64 bits."""
    return (float_of((bits >> uint64(12)) | _ONE) - 1.0) + 1.1102230246251565e-16


@numba.njit(error_model="numpy")
def thresholds_of(bits: Array, kt: float, bath: bool, out: Array) -> None:
    """Write the thresholds that random `bits` (uint64) stand for into `out`; `bath` asks for the heat bath's.

    A proposal whose energy changes by d, in integer units of which `kt` make one kT, is accepted when d <= threshold, with
    u = (2 k + 1)/2^53, k uniform in 0 .. 2^52 - 1:

        Metropolis    threshold = floor(-log(u) kt)             chance min(1, exp(-d/kt))
        heat bath     threshold = floor(log((1 - u)/u) kt)      chance 1/(1 + exp(d/kt))

    At kt = 0 both accept what lowers the energy; Metropolis also what leaves it, the heat bath every second of these.
    """
    if bath:
        # so small a kt stands for zero: it only lets the sign of the logarithm through
        least = max(kt, 1e-300)
        for i in range(len(out)):
            u = _uniform(bits[i])
            out[i] = int32(np.floor((_minus_log(u) - _minus_log(1.0 - u)) * least))
    else:
        for i in range(len(out)):
            out[i] = int32(_minus_log(_uniform(bits[i])) * kt)  # type: ignore[call-overload]


@numba.njit
def thresholds(
    key: np.uint64, chain: int, sweep: int, first: int, kt: float, bath: bool, raw: Array, out: Array
) -> None:
    """Write the thresholds of proposals first .. first + len(out) - 1 of a sweep; `first` and len(out) are even.

    `raw` is scratch of the same length.
    """
    for i in range(len(out) // 2):
        a, b, c, d = philox_words(first // 2 + i, sweep, chain, ACCEPTANCE, key)
        raw[2 * i] = (b << uint64(32)) | a
        raw[2 * i + 1] = (d << uint64(32)) | c
    thresholds_of(raw, kt, bath, out)


@njit(nogil=True)
def site_orders(key: np.uint64, first: int, out: Array) -> None:
    """Fill `out` (sweeps, n) with a fresh permutation of the sites for each sweep from `first` on (Fisher-Yates)."""
    n = out.shape[1]
    draws = np.empty(n + 3, np.uint64)
    for t in range(out.shape[0]):
        for i in range((n + 3) // 4):
            draws[4 * i], draws[4 * i + 1], draws[4 * i + 2], draws[4 * i + 3] = philox_words(
                i, first + t, 0, ORDER, key
            )
        for i in range(n):
            out[t, i] = i
        for i in range(n - 1, 0, -1):
            j = int64((draws[i] * uint64(i + 1)) >> uint64(32))
            out[t, i], out[t, j] = out[t, j], out[t, i]


@njit(nogil=True)
def first_weights(key: np.uint64, first_chain: int, out: Array) -> None:
    """Fill `out` (chains, n) with independent fair signs, chain numbers counted from `first_chain`."""
    chains, n = out.shape
    for c in range(chains):
        for i in range((n + 127) // 128):
            block = philox_words(i, 0, first_chain + c, START, key)
            for word in range(4):
                for bit in range(32):
                    site = 128 * i + 32 * word + bit
                    if site < n:
                        out[c, site] = 2 * int64((block[word] >> uint64(bit)) & uint64(1)) - 1


@njit(nogil=True)
def first_levels(key: np.uint64, cumulative: Array, out: Array) -> None:
    """Fill `out` (chains, n) uint8 with independent numbers of levels of `cumulative` (L,) probabilities."""
    chains, n = out.shape
    for c in range(chains):
        for i in range((n + 3) // 4):
            block = philox_words(i, 0, c, START, key)
            for part in range(4):
                site = 4 * i + part
                if site < n:
                    u = (float64(block[part]) + 0.5) * 2.0**-32
                    level = 0
                    while level < len(cumulative) - 1 and u > cumulative[level]:
                        level += 1
                    out[c, site] = level


@njit(nogil=True)
def tilted_weights(key: np.uint64, numbers: Array, means: Array, out: Array) -> None:
    """Fill `out` (chains, n) with independent signs of these `means` (chains, n), for the chains `numbers` (chains,)."""
    chains, n = out.shape
    for c in range(chains):
        for i in range((n + 3) // 4):
            block = philox_words(i, 0, numbers[c], TILTED, key)
            for part in range(4):
                site = 4 * i + part
                if site < n:
                    up = (float64(block[part]) + 0.5) * 2.0**-32 < 0.5 * (1.0 + means[c, site])
                    out[c, site] = 1 if up else -1


@njit(error_model="numpy")
def exponentials(key: np.uint64, sweep: int, out: Array) -> None:
    """Fill `out` (ladders, pairs) with -log(u), which decide the exchanges after a sweep."""
    for ladder in range(out.shape[0]):
        for pair in range(out.shape[1]):
            a, b, _, _ = philox_words(pair, sweep, ladder, EXCHANGE, key)
            out[ladder, pair] = _minus_log(_uniform((b << uint64(32)) | a))


@lru_cache(maxsize=1)
def cubics() -> Array:
    """Return the coefficients (32 · CELLS, 4) float32 of the cubics, lowest power first, octave by octave from v = 1 on.

    The lowest bit of a word is a deviate's sign; the others, with a one behind them, are an odd number v < 2^32 with p = v/2^32
    the chance of a larger one: |z| = -Φ⁻¹(p/2). This is smooth in log p: a cubic in each cell is right to 1e-7.

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


class Noise:
    """Deviates of the samples of one problem in `columns` (n, width), which they fill.

    They are functions of (seed of the problem, sample, step, weight), the same bits on the processor and on a device, single
    precision at every working precision: one seed means one path of noise, also after an interruption.
    """

    def __init__(self, seeds: np.random.SeedSequence, columns: Array) -> None:
        self.key, self.columns, self.n = _key(seeds), columns, len(columns)

    def draw(self, lanes: Array, steps: Array) -> Array:
        """Return the array with the deviates of `steps` (k,) of the samples `lanes`; the next call overwrites it."""
        lanes, table, own = np.asarray(lanes, np.int64), cubics(), np.asarray(steps, np.int64)[lanes]

        def part(first: int, last: int) -> None:
            normals(self.key, lanes, own, table, first, last, self.columns)

        split(part, -(-self.n // 4), max(1, (1 << 14) // max(1, len(lanes))))
        return self.columns


class GpuNoise:
    """Deviates of `k` samples for each of `seeds` in an array (problems, n, k) on the device, which they fill."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence], n: int, k: int) -> None:
        self.n, self.k = n, k
        self.keys, self.table = sent(np.array([_key(own) for own in seeds])), sent(cubics())
        self.columns = cupy().zeros((len(seeds), n, k), np.float32)

    def draw(self, lanes: Array, steps: Array) -> DeviceArray:
        where, count = (sent(np.asarray(part, np.int32)) for part in (lanes, np.asarray(steps)[lanes])), len(lanes)
        grid = (-(-self.n // 4), -(-count // _BLOCK))
        sizes = np.int32(self.n), np.int32(self.k)
        _kernel("normals")(grid, (_BLOCK,), (*where, np.int32(count), self.keys, *sizes, self.table, self.columns))
        return self.columns

    def stir(self, field: DeviceArray, step: int, size: float, share: DeviceArray, following: float) -> None:
        """Add `size` times the deviates of a step to the fields (n, k) of one problem; then set `share` to `following`."""
        grid = (-(-(-(-self.n // 4) * self.k) // _BLOCK),)
        sizes = np.int32(self.n), np.int32(self.k), self.table, np.int32(step), np.float32(size)
        _kernel("stir")(grid, (_BLOCK,), (self.keys, *sizes, field, np.float32(following), share))


def _kernel(name: str) -> Any:
    return kernel("noise", name, (("CELLS", CELLS),))


def _key(seeds: np.random.SeedSequence) -> np.uint64:
    return np.uint64(seeds.generate_state(1, np.uint64)[0])
