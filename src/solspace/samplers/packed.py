"""Random ±1 patterns as the bits they are drawn as, an eighth of their size, until they are read.

A device unpacks bits faster than the host can send bytes, and a sweep looks at no pattern: drawing, sending and
checking a problem of 10,001 weights then takes a few milliseconds instead of half a second.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.problem import Perceptron, unpacked


class PackedPerceptron(Perceptron):
    """The problem that `Perceptron.random` draws with ±1 patterns from the same seed, kept as bits, eight to a byte.

    >>> packed = PackedPerceptron(n=11, m=6, target=Target(), rng=0)
    >>> bool((packed.patterns == Perceptron.random(n=11, alpha=0.5, rng=0).patterns).all())
    True
    """

    ensemble = "binary"

    def __init__(self, n: int, m: int, target: Target, rng: RNG = None) -> None:
        self.target, self.m, self.n, self.alpha, self.has_binary_patterns = target, m, n, m / n, True
        self.bits = _bytes(rng, (m * n + 7) // 8)

    @cached_property
    def patterns(self) -> Array:  # type: ignore[override]
        """(m, n) int8, unpacked when they are first read."""
        patterns = unpacked(self.bits, self.m, self.n)
        patterns.flags.writeable = False
        return patterns

    def _entries(self, rows: int, columns: int) -> Array:
        """Return every so many-th entry of every so many-th pattern, without a look at the others."""
        at = np.arange(0, self.m, rows)[:, None] * self.n + np.arange(0, self.n, columns)
        bits = self.bits[at >> 3] >> (7 - (at & 7)).astype(np.uint8) & 1
        return 2 * bits.view(np.int8) - 1


def _bytes(rng: RNG, size: int) -> Array:
    """Return what `generator(rng).bytes(size)` is, (size,) uint8, without its copies: while it copies, no other thread runs."""
    random = generator(rng)
    if random is rng:
        return np.frombuffer(random.bytes(size), np.uint8)
    # words of 32 bits, of which bytes are made, are the halves of a generator's words of 64
    return random.bit_generator.random_raw(-(-size // 8)).astype("<u8", copy=False).view(np.uint8)[:size]
