"""How chains are laid out on a device: warps to a chain, constraints to a thread, chains to a block.

A chain's proposals come one after another, so that its speed is set by the time from one decision to the next; a
device is kept busy by many chains. Where there are many, a chain gets one warp and no barrier; where there are few, its
constraints are spread over more warps, each decision then costing a barrier. Names of fields are those of the CUDA sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from solspace.samplers.annealing.cpu import LEVELS

_WINDOW = 1 << 14  # levels of the table that are kept where levels and table do not both fit
_MOST_PAIRS = 79  # pairs of constraints whose fields and levels fit the registers of a thread
_MOST_WARPS = 16
_IN_REGISTERS = 64 * 40 * _MOST_WARPS  # constraints above which levels lie in shared memory
# Chains to a block at the most where each has a problem of its own. Launches of other shapes run beside such chains, and what
# waits first in line for room on a multiprocessor keeps all behind it waiting: small blocks find room sooner.
_OWN_GROUP = 4
_RING = 1 << 16  # bytes of columns on their way that a block may keep
_OWN = 200 << 10  # shared memory of a multiprocessor within which chains keep columns of their own

Constants = tuple[tuple[str, int], ...]


@dataclass
class Layout:
    """What the kernels for both kinds of patterns have in common."""

    warps: int  # to a chain
    group: int  # chains to a block
    resident: int  # blocks to a multiprocessor

    def __post_init__(self) -> None:
        self.threads = 32 * self.warps  # to a chain
        # chains on a multiprocessor: those that the kernel is compiled for, or eight warps of those that are spread
        self.held = max(self.group * self.resident, 8 // self.warps)
        self.tile = 2 * self.threads  # proposals laid out together
        self.proposal_bytes = 8 * (self.tile + 24)  # of a tile, with those that may be read ahead
        self.sum_bytes = 32 * self.warps  # through which the warps of a chain add up
        self.sizes: dict[str, int] = {}
        self.shared_bytes = 0  # shared memory of a block

    def constants(self, solve: bool) -> Constants:
        named = {"WARPS": self.warps, "GROUP": self.group, "RESIDENT": self.resident, "SOLVE": solve, **self.sizes}
        return tuple((name, int(value)) for name, value in named.items())


@dataclass
class IntegerLayout(Layout):
    """Sizes of the kernel for ±1 patterns (`kernels/cuda/flips_integer.cu`)."""

    pairs: int  # of constraints to a thread
    batch: int  # proposals summed at a time
    size: int  # levels of the lattice
    levels_shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.slots = 2 * self.pairs  # constraints to a thread, padding included
        self.words = -(-self.slots // 32)  # words of 32 bits that a thread reads of a column
        self.window = min(self.size, _WINDOW) if self.levels_shared else self.size  # levels in the table
        guarded = self.window < self.size or self.size > LEVELS - 128  # whether levels might leave the table
        # columns of one word to each lane of a single warp come into registers
        direct = self.warps == self.words == 1 and self.batch <= 2
        room = _RING // (16 * self.words * self.threads * self.group)
        # columns fetched together; four times as many are kept
        self.hop = 0 if direct else max(hop for hop in (1, 2, 4, 8) if hop <= max(room, self.batch))
        table, ring = 16 * -(-2 * self.window // 16), 16 * self.hop * self.words * self.threads
        levels = 4 * self.pairs * self.threads if self.levels_shared else 0
        self.shared_bytes = table + self.group * (self.proposal_bytes + ring) + self.sum_bytes + levels
        self.sizes = {
            "PAIRS": self.pairs,
            "BATCH": self.batch,
            "DIRECT": direct,
            "HOP": self.hop,
            "UNIT": 2 if self.window <= LEVELS // 2 and not guarded else 1,
            "WINDOW": self.window,
            "GUARDED": guarded,
            "LEVELS_SHARED": self.levels_shared,
        }

    @classmethod
    def of(cls, m: int, size: int, warps: int, group: int = 1, resident: int = 1, batch: int = 1) -> IntegerLayout:
        pairs = -(-m // (64 * warps))
        return cls(warps, group, resident, pairs, batch, size, levels_shared=pairs * warps > 640)

    @classmethod
    def choose(cls, m: int, size: int, chains: int, processors: int, own: bool = False) -> IntegerLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> IntegerLayout.choose(m=500, size=1004, chains=4224, processors=132).warps
        1
        >>> IntegerLayout.choose(m=2500, size=5004, chains=100, processors=132).warps
        4
        """
        if m > _IN_REGISTERS:
            return cls.of(m, size, _MOST_WARPS)
        warps = -(-m // (64 * _MOST_PAIRS))
        if chains < 8 * processors:
            # few chains: spread each over more warps, down to about ten pairs a thread
            warps = max(warps, min(-(-m // 640), 8 * processors // chains, 8))
            if chains * warps <= 8 * processors and warps <= 8:
                return cls.of(m, size, warps, batch=4)
        # keep a multiprocessor as full as its registers allow
        pairs = -(-m // (64 * warps))
        held = 32 if pairs <= 16 else 16 if pairs <= 32 else 12 if pairs <= 48 else 8
        if warps > 1:
            return cls.of(m, size, warps, 1, max(1, held // warps))
        group = min(16 if pairs <= 16 else 4, _OWN_GROUP if own else 16)
        return cls.of(m, size, 1, group, held // group)


@dataclass
class RealLayout(Layout):
    """Sizes of the kernel for real-valued patterns (`kernels/cuda/flips_real.cu`)."""

    quads: int  # of constraints to a thread
    power: bool
    linear: bool = False  # whether power forms have no powers: linear below the edge, 0 above
    own: bool = False  # whether columns are kept in shared memory, two at a time: for chains with patterns of their own

    def __post_init__(self) -> None:
        super().__post_init__()
        self.size = 4 * self.quads * self.threads  # constraints, padding included
        table, columns = 8 * (32 if self.power else 2 * 31 * 128), 8 * self.size if self.own else 0
        self.shared_bytes = self.group * (table + self.proposal_bytes + columns) + self.sum_bytes
        self.weighing_bytes = table + self.sum_bytes  # shared memory of a block that sums energies
        self.sizes = {"QUADS": self.quads, "POWER": self.power, "LINEAR": self.linear, "OWN": self.own}

    @classmethod
    def of(cls, m: int, power: bool, warps: int, group: int = 1, resident: int = 1, linear: bool = False) -> RealLayout:
        return cls(warps, group, resident, -(-m // (128 * warps)), power, linear)

    @classmethod
    def choose(
        cls, m: int, power: bool, chains: int, processors: int, linear: bool = False, own: bool = False
    ) -> RealLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> RealLayout.choose(m=5000, power=True, chains=528, processors=132).warps
        4
        """
        few = chains < 4 * processors
        warps = max(1, min(-(-m // (128 * (2 if few else 10))), 8 if few else 16), -(-m // (128 * 16)))
        warps = min(warps, 32)
        if not power or warps > 1 or few:
            warps = warps if power else max(4, warps)
            found = cls.of(m, power, warps, 1, max(1, (16 if power else 12) // warps), linear)
        else:  # as many chains to a multiprocessor as registers allow without spilling
            found = cls.of(m, power, 1, *((8, 3) if m <= 512 else (4, 4)), linear)
        keeping = replace(found, own=own)
        return keeping if found.resident * keeping.shared_bytes <= _OWN else found
