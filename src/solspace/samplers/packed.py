"""Random ±1 patterns as the bits they are drawn as, an eighth of their size, until somebody looks at them.

A device unpacks bits faster than the host can send bytes, and a sweep looks at no pattern: drawing, sending and
checking a problem of 10,001 weights then takes a few milliseconds instead of half a second.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.problem import Perceptron


class PackedPerceptron(Perceptron):
    """The problem that `Perceptron.random` draws with ±1 patterns from the same seed, kept as bits, eight to a byte.

    >>> packed = PackedPerceptron(n=11, m=6, target=Target(), rng=0)
    >>> bool((packed.patterns == Perceptron.random(n=11, alpha=0.5, rng=0).patterns).all())
    True
    """

    ensemble = "binary"

    def __init__(self, n: int, m: int, target: Target, rng: RNG = None) -> None:
        self.shape, self.target = (m, n), target
        size = (m * n + 7) // 8
        # what `Generator.bytes` makes, without its copies: while it copies, no other thread runs
        words = generator(rng).integers(0, 1 << 32, size=-(-size // 4), dtype=np.uint32).astype("<u4", copy=False)
        self.bits = words.view(np.uint8)[:size]

    @cached_property
    def patterns(self) -> Array:  # type: ignore[override]
        """(m, n) int8, unpacked at the first look."""
        bits = np.unpackbits(self.bits, count=self.m * self.n)
        patterns = (2 * bits.view(np.int8) - 1).reshape(self.shape)
        patterns.flags.writeable = False
        return patterns

    @property
    def n(self) -> int:
        """Number of weights."""
        return self.shape[1]

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.shape[0]

    @property
    def has_binary_patterns(self) -> bool:
        """True."""
        return True

    def with_target(self, target: Target) -> PackedPerceptron:
        """Return the same patterns under another target."""
        same = object.__new__(PackedPerceptron)
        same.__dict__.update(self.__dict__, target=target)
        return same
