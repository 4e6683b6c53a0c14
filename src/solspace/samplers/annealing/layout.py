"""How chains are laid out on a device: warps to a chain, constraints to a thread, chains to a block.

A chain's proposals come one after another, so that its speed is set by the time from one decision to the next; a
device is kept busy by many chains. Where there are many, a chain gets one warp and no barrier; where there are few, its
constraints are spread over more warps, each decision then costing a barrier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from solspace.samplers.annealing.integer_levels import LEVELS

WINDOW = 1 << 14
"""Levels of the table that are kept where levels and table do not both fit."""
_MOST_PAIRS = 79
"""Pairs of constraints whose fields and levels fit the registers of a thread."""
_MOST_WARPS = 16
_IN_REGISTERS = 64 * 40 * _MOST_WARPS
"""Constraints above which levels lie in shared memory."""
OWN_GROUP = 4
"""Chains to a block at the most where each has a problem of its own. Launches of other shapes run beside such chains, and what
waits first in line for room on a multiprocessor keeps all behind it waiting: small blocks find room sooner."""
_RING = 1 << 16
"""Bytes of columns on their way that a block may keep."""
_OWN = 200 << 10
"""Shared memory of a multiprocessor within which chains keep columns of their own."""


@dataclass(frozen=True)
class IntegerLayout:
    """Sizes of the kernel for ±1 patterns; the names are those of `kernels/cuda/flips_integer.cu`."""

    pairs: int
    warps: int
    group: int
    resident: int
    batch: int
    size: int
    levels_shared: bool = False

    @property
    def threads(self) -> int:
        """Threads to a chain."""
        return 32 * self.warps

    @property
    def held(self) -> int:
        """Chains on a multiprocessor."""
        return _held(self.group, self.resident, self.warps)

    @property
    def slots(self) -> int:
        """Constraints to a thread, padding included."""
        return 2 * self.pairs

    @property
    def words(self) -> int:
        """Words of 32 bits that a thread reads of a column."""
        return -(-self.slots // 32)

    @property
    def tile(self) -> int:
        """Proposals laid out together."""
        return 2 * self.threads

    @property
    def window(self) -> int:
        """Levels in the table."""
        return WINDOW if self.levels_shared and self.size > WINDOW else self.size

    @property
    def guarded(self) -> bool:
        """Whether levels might leave the table."""
        return self.window < self.size or self.size > LEVELS - 128

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        table = 16 * -(-2 * self.window // 16)
        return table + self.group * (_proposals(self.tile) + self._ring) + _sums(self.warps) + self._levels

    @property
    def direct(self) -> bool:
        """Whether columns come into registers: of one word to each lane of a single warp."""
        return self.warps == self.words == 1 and self.batch <= 2

    @property
    def hop(self) -> int:
        """Columns fetched together; four times as many are kept."""
        if self.direct:
            return 0
        room = _RING // (16 * self.words * self.threads * self.group)
        return max(hop for hop in (1, 2, 4, 8) if hop <= max(room, self.batch))

    @property
    def _ring(self) -> int:
        return 16 * self.hop * self.words * self.threads

    @property
    def _levels(self) -> int:
        return 4 * self.pairs * self.threads if self.levels_shared else 0

    def constants(self, solve: bool) -> tuple[tuple[str, int], ...]:
        """Return what the kernel is compiled with."""
        unit = 2 if self.window <= LEVELS // 2 and not self.guarded else 1
        return (
            ("PAIRS", self.pairs),
            ("WARPS", self.warps),
            ("GROUP", self.group),
            ("RESIDENT", self.resident),
            ("BATCH", self.batch),
            ("DIRECT", int(self.direct)),
            ("HOP", self.hop),
            ("UNIT", unit),
            ("WINDOW", self.window),
            ("GUARDED", int(self.guarded)),
            ("LEVELS_SHARED", int(self.levels_shared)),
            ("SOLVE", int(solve)),
        )

    @classmethod
    def of(cls, m: int, size: int, warps: int, group: int = 1, resident: int = 1, batch: int = 1) -> IntegerLayout:
        """Return the layout of `m` constraints over `warps` warps."""
        pairs = -(-m // (64 * warps))
        return cls(pairs, warps, group, resident, batch, size, levels_shared=pairs * warps > 640)

    @classmethod
    def choose(cls, m: int, size: int, chains: int, processors: int, own: bool = False) -> IntegerLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> IntegerLayout.choose(m=500, size=1004, chains=4224, processors=132).warps
        1
        >>> IntegerLayout.choose(m=2500, size=5004, chains=100, processors=132).warps
        4
        """
        least = -(-m // (64 * _MOST_PAIRS))
        if m > _IN_REGISTERS:
            return cls.of(m, size, _MOST_WARPS)
        if chains >= 8 * processors:
            return cls._filled(m, size, least, own)
        # few chains: spread each over more warps, down to about ten pairs a thread
        spread = max(1, min(-(-m // 640), 8 * processors // chains, 8))
        warps = max(least, spread)
        if chains * warps > 8 * processors or warps > 8:
            return cls._filled(m, size, warps, own)
        return cls.of(m, size, warps, batch=4)

    @classmethod
    def _filled(cls, m: int, size: int, warps: int, own: bool) -> IntegerLayout:
        """Return the layout that keeps a multiprocessor as full as its registers allow."""
        pairs = -(-m // (64 * warps))
        held = 32 if pairs <= 16 else 16 if pairs <= 32 else 12 if pairs <= 48 else 8
        if warps > 1:
            return cls.of(m, size, warps, 1, max(1, held // warps))
        group = min(16 if pairs <= 16 else 4, OWN_GROUP if own else 16)
        return cls.of(m, size, 1, group, held // group)


@dataclass(frozen=True)
class RealLayout:
    """Sizes of the kernel for real-valued patterns; the names are those of `kernels/cuda/flips_real.cu`."""

    quads: int
    warps: int
    group: int
    resident: int
    power: bool
    linear: bool = False
    """Whether power forms have no powers: linear below the edge, 0 above."""
    own: bool = False
    """Whether columns are kept in shared memory, two at a time: for chains that share them with nobody."""

    @property
    def threads(self) -> int:
        """Threads to a chain."""
        return 32 * self.warps

    @property
    def held(self) -> int:
        """Chains on a multiprocessor."""
        return _held(self.group, self.resident, self.warps)

    @property
    def size(self) -> int:
        """Constraints, padding included."""
        return 4 * self.quads * self.threads

    @property
    def tile(self) -> int:
        """Proposals laid out together."""
        return 2 * self.threads

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block."""
        return self.group * (self._table + _proposals(self.tile) + self._kept) + _sums(self.warps)

    @property
    def _kept(self) -> int:
        return 8 * self.size if self.own else 0

    @property
    def weighing_bytes(self) -> int:
        """Shared memory of a block that sums energies."""
        return self._table + _sums(self.warps)

    @property
    def _table(self) -> int:
        return 8 * (32 if self.power else 2 * 31 * 128)

    def constants(self, solve: bool) -> tuple[tuple[str, int], ...]:
        """Return what the kernel is compiled with."""
        return (
            ("QUADS", self.quads),
            ("WARPS", self.warps),
            ("GROUP", self.group),
            ("RESIDENT", self.resident),
            ("POWER", int(self.power)),
            ("LINEAR", int(self.linear)),
            ("OWN", int(self.own)),
            ("SOLVE", int(solve)),
        )

    @classmethod
    def of(cls, m: int, power: bool, warps: int, group: int = 1, resident: int = 1, linear: bool = False) -> RealLayout:
        """Return the layout of `m` constraints over `warps` warps."""
        return cls(-(-m // (128 * warps)), warps, group, resident, power, linear)

    @classmethod
    def choose(
        cls, m: int, power: bool, chains: int, processors: int, linear: bool = False, own: bool = False
    ) -> RealLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> RealLayout.choose(m=5000, power=True, chains=528, processors=132).warps
        4
        """
        found = cls._choose(m, power, chains, processors, linear)
        keeping = replace(found, own=own)
        return keeping if found.resident * keeping.shared_bytes <= _OWN else found

    @classmethod
    def _choose(cls, m: int, power: bool, chains: int, processors: int, linear: bool) -> RealLayout:
        few = chains < 4 * processors
        warps = max(1, min(-(-m // (128 * (2 if few else 10))), 8 if few else 16), -(-m // (128 * 16)))
        warps = min(warps, 32)
        if not power or warps > 1 or few:
            warps = warps if power else max(4, warps)
            return cls.of(m, power, warps, 1, max(1, (16 if power else 12) // warps), linear)
        # as many chains to a multiprocessor as registers allow without spilling
        return cls.of(m, power, 1, *((8, 3) if m <= 512 else (4, 4)), linear)


def _held(group: int, resident: int, warps: int) -> int:
    """Return the chains on a multiprocessor: those that the kernel is compiled for, or eight warps of those that are spread."""
    return max(group * resident, 8 // warps)


def _proposals(tile: int) -> int:
    """Return the bytes of a tile of proposals, with those that may be read ahead."""
    return 8 * (tile + 24)


def _sums(warps: int) -> int:
    """Return the bytes through which the warps of a chain add up."""
    return 32 * warps
