"""Single flips of ±1 weights, or steps between equally spaced levels, on ±1 patterns, in integers.

A flip moves every stability one step up or down its lattice. With E(j) the integer energy of level j, each constraint keeps its
*field* C = E(j+1) - E(j-1), and the chain Σ P with P = E(j+1) - E(j). Flipping weight i takes the set D = {x_i w_i > 0} one level
down and the others one up: the energy changes by Σ P - Σ_D C, a sum of cached 16-bit integers selected by the packed bits of
column i. On acceptance C is read anew from its table, with AVX-512 by permuting registers (`machine_vectors.look_up`) where
levels lie in a window, and P follows: Σ P' = Σ_D C + Σ_U C' - Σ P, with U the constraints that moved up. Sums of integers do not
depend on their order: every processor makes the same chain. Levels are unsigned 16-bit numbers: for n > 65,000 only the middle
2^16 levels can be told apart, and a chain that comes near their edge stops the run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from numba import int16, int64, uint8, uint16, uint32, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.flips import Rows, Sweeps
from solspace.samplers.kernels.machine_vectors import (
    PAGES,
    WIDE,
    add,
    add_selected,
    add_where,
    add_words,
    beyond,
    either_beyond,
    get,
    keep,
    load,
    look_up,
    prefetch,
    put,
    shift,
    store,
    total,
    zeros,
)
from solspace.samplers.kernels.philox import LEVEL, philox_words, thresholds
from solspace.system.compiled import njit, variant

TILE = 256  # proposals whose thresholds are drawn together
GROUP = 4  # blocks of 32 constraints that are summed side by side; columns are padded to whole groups
EDGE = 64  # levels this close to either end of 2^16 are an overflow about to happen


class Patterns(NamedTuple):
    """±1 patterns by columns."""

    bits: Array  # (n · blocks,) uint32 packed columns one after another, +1 as set bits; blocks is a multiple of 4
    valid: Array  # (blocks,) uint32 the bits that are constraints
    m: int
    allowed: tuple[int, int]  # first level and number of levels at which a constraint is met


class Prior(NamedTuple):
    """Levels of weights, one step of the lattice apart, and what weighs them."""

    values: Array  # (L,) float64
    logs: Array  # (L,) log probabilities
    times: Array  # (k,) t of the measure p(w) exp(⟨h, w⟩ - t |w|²/2)


_NONE = Prior(np.empty(0), np.empty(0), np.empty(0))


class Scratch(NamedTuple):
    """Memory of one thread, at multiples of 64 bytes."""

    field: Array  # (32 blocks,) int16 C of each constraint
    table: Array  # int16 C of each level, and 512 more
    halves: Array  # (1024,) uint8
    raw: Array  # (TILE,) uint64 random bits
    threshold: Array  # (TILE,) int32


@njit(nogil=True)
def pack_columns(patterns: Array, out: Array) -> None:
    """Fill `out` (n, blocks) uint32 with the columns of ±1 `patterns` (m, n), +1 as set bits, 32 constraints a word."""
    m, n = patterns.shape
    word = np.empty(n, np.uint32)
    for block in range((m + 31) // 32):
        for i in range(n):
            word[i] = uint32(0)
        for row in range(32 * block, min(32 * block + 32, m)):
            bit = uint32(1) << uint32(row - 32 * block)
            for i in range(n):
                word[i] |= bit if patterns[row, i] > 0 else uint32(0)
        for i in range(n):
            out[i, block] = word[i]


@njit(nogil=True)
def find_levels(bits: Array, weights: Array, base: int, out: Array) -> None:
    """Fill `out` (chains, 32 blocks) uint16 with 1 - `base` plus the number of weights that agree with each pattern.

    `bits` are the packed columns one after another; what pads them, zeros, counts as patterns of -1.
    """
    chains, n = weights.shape
    blocks = out.shape[1] // 32
    for chain in range(chains):
        level = out[chain]
        minus = 0
        for i in range(n):
            minus += weights[chain, i] < 0
        for lane in range(32 * blocks):
            level[lane] = uint16(minus + 1 - base)
        for i in range(n):
            w = int64(weights[chain, i])
            for k in range(blocks):
                store(level, 32 * k, add_where(load(level, 32 * k), get(bits, i * blocks + k), w))


@numba.njit(inline="always")
def _selected(bits: Array, column: int, blocks: int, field: Array) -> int:
    a, b, c, d = zeros(), zeros(), zeros(), zeros()
    for k in range(0, blocks, GROUP):
        a = add_selected(a, get(bits, column + k), load(field, 32 * k))
        b = add_selected(b, get(bits, column + k + 1), load(field, 32 * k + 32))
        c = add_selected(c, get(bits, column + k + 2), load(field, 32 * k + 64))
        d = add_selected(d, get(bits, column + k + 3), load(field, 32 * k + 96))
    return total(add(add(a, b), add(c, d)))


def _mover(pages: int) -> Callable[..., tuple[int, int]]:
    """Return the function that carries out a flip, with a register window of 128 `pages` levels."""

    @numba.njit
    @variant(pages)
    def move(bits, column, valid, weight, level, field, table, halves, low):
        blocks = len(valid)
        plus, everything = zeros(), zeros()
        for k in range(0, blocks, 2):
            first, second = get(bits, column + k), get(bits, column + k + 1)
            left = shift(load(level, 32 * k), first, weight)
            right = shift(load(level, 32 * k + 32), second, weight)
            store(level, 32 * k, left)
            store(level, 32 * k + 32, right)
            if WIDE and not either_beyond(left, right, low, 128 * pages):
                one = look_up(table, halves, low, pages, left, right, 0)
                two = look_up(table, halves, low, pages, left, right, 1)
            else:
                for lane in range(32 * k, 32 * k + 64):
                    put(field, lane, get(table, int64(get(level, lane))))
                one, two = load(field, 32 * k), load(field, 32 * k + 32)
            if k >= blocks - GROUP:
                one, two = keep(get(valid, k), one), keep(get(valid, k + 1), two)
            store(field, 32 * k, one)
            store(field, 32 * k + 32, two)
            plus = add_selected(add_selected(plus, first, one), second, two)
            everything = add_words(add_words(everything, one), two)
        return total(plus), total(everything)

    return move


_move_1, _move_2, _move_3, _move_4 = (_mover(pages) for pages in (1, 2, 3, 4))


@numba.njit
def _violated(level: Array, valid: Array, block: int, first: int, width: int) -> int:
    """Return the first block from `block` on, cyclically, with a level not allowed; -1 if there is none."""
    blocks = len(valid)
    for step in range(blocks):
        k = block + step if block + step < blocks else block + step - blocks
        if beyond(load(level, 32 * k), first, width) & get(valid, k) != uint32(0):
            return k
    return -1


@numba.njit
def _refresh(energy: Array, level: Array, scratch: Scratch, m: int) -> tuple[int, int, int, int, int]:
    """Build the field's table for new energies, read the field; return Σ C, Σ P, Σ E, and a window (low, pages)."""
    field, table, halves = scratch.field, scratch.table, scratch.halves
    size = len(energy)
    for j in range(1, size - 1):
        table[j] = int16(energy[j + 1] - energy[j - 1])
    fields, ups, energies, mean, square = 0, 0, 0, 0.0, 0.0
    for mu in range(m, len(field)):
        put(field, mu, int16(0))
    for mu in range(m):
        j = int64(get(level, mu))
        value = get(table, j)
        put(field, mu, value)
        fields += value
        here = int64(get(energy, j))
        ups += get(energy, j + 1) - here
        energies += here
        mean += j
        square += float(j) * j
    mean /= m
    spread = np.sqrt(max(square / m - mean * mean, 0.0))
    pages = min(PAGES, 1 + int64(7.0 * spread / 128.0))
    low = int64(mean + 0.25 * spread) - 64 * pages
    low = max(0, min(low, len(table) - 128 * pages)) // 32 * 32
    for i in range(128 * pages):
        halves[i] = uint8(table[low + i] & 0xFF)
        halves[128 * PAGES + i] = uint8((table[low + i] >> 8) & 0xFF)
    return fields, ups, energies, low, pages


@numba.njit
def tilt(level: int, values: Array, logs: Array, field: float, time: float, kt: float) -> np.int64:
    """Return the log weight of a level, log p + h v - t v²/2, in units of the energies, an integer."""
    value = values[level]
    return int64(np.rint(kt * (logs[level] + field * value - 0.5 * time * value * value)))


def _runner(stepping: bool) -> Callable[..., bool]:
    """Return the function that runs chains of ±1 weights, which flip, or of numbers of levels, which go one up or down."""

    @njit(nogil=True, error_model="numpy")
    @variant("steps" if stepping else "flips")
    def run(patterns, energies, sweeps, rows, prior, levels, scratch, halt):
        # arrays by themselves: taken out of a tuple at every flip they cost a third of the time
        bits, valid, field, table, halves = patterns.bits, patterns.valid, scratch.field, scratch.table, scratch.halves
        pull_of, pulled = rows.field, rows.field.size > 0
        values, logs, times = prior.values, prior.logs, prior.times
        proposals, blocks = sweeps.orders.shape[1], len(valid)
        raw, threshold, ways = scratch.raw, scratch.threshold, np.empty(TILE // 32, np.uint64)
        guarded = energies.shape[1] > (1 << 16) - 2 * EDGE
        first, width = patterns.allowed
        for row in range(len(rows.number)):
            weight, level = rows.weights[row], levels[row]
            for t in range(len(sweeps.orders)):
                if rows.stopped[row]:
                    break
                stage = rows.stage[row] + sweeps.stride * t
                kt, order = sweeps.kt[stage], sweeps.orders[t]
                fields, ups, energy, low, pages = _refresh(energies[stage], level, scratch, patterns.m)
                witness = _violated(level, valid, 0, first, width)
                rows.stopped[row] = sweeps.solve and witness < 0
                count = 0
                for p in range(0 if rows.stopped[row] else proposals):
                    if p % TILE == 0:
                        if halt[0]:
                            return True
                        ahead = min(TILE, proposals - p + (proposals & 1))
                        thresholds(
                            sweeps.key, rows.number[row], sweeps.first + t, p, kt, sweeps.bath[t], raw[:ahead],
                            threshold[:ahead],
                        )  # fmt: skip
                        if stepping:
                            for block in range(len(ways) // 4):
                                ways[4 * block], ways[4 * block + 1], ways[4 * block + 2], ways[4 * block + 3] = (
                                    philox_words(
                                        p // 128 + block, sweeps.first + t, rows.number[row], LEVEL, sweeps.key
                                    )
                                )
                    site = int64(order[p])
                    following = int64(order[p + 1 if p + 1 < proposals else p]) * blocks
                    for k in range(0, blocks, 16):
                        prefetch(bits, following + k)
                    pull = int64(0)
                    if stepping:  # what goes down has w = 1
                        old = int64(weight[site])
                        w = int64(1) - int64(2) * int64((ways[p % TILE // 32] >> uint64(p % 32)) & uint64(1))
                        new = old - w
                        if new < 0 or new >= len(values):
                            continue
                        h = pull_of[row, site] if pulled else 0.0
                        pull = tilt(old, values, logs, h, times[row], kt) - tilt(new, values, logs, h, times[row], kt)
                    else:
                        w = int64(weight[site])
                        new = -w
                        if pulled:
                            pull = w * int64(np.rint(2.0 * kt * pull_of[row, site]))
                    column = site * blocks
                    down = _selected(bits, column, blocks, field)
                    if w < 0:
                        down = fields - down
                    change = ups - down
                    if change + pull > threshold[p % TILE]:
                        continue
                    if pages == 1:
                        plus, fields = _move_1(bits, column, valid, w, level, field, table, halves, low)
                    elif pages == 2:
                        plus, fields = _move_2(bits, column, valid, w, level, field, table, halves, low)
                    elif pages == 3:
                        plus, fields = _move_3(bits, column, valid, w, level, field, table, halves, low)
                    else:
                        plus, fields = _move_4(bits, column, valid, w, level, field, table, halves, low)
                    ups = (fields - plus if w > 0 else plus) + down - ups
                    energy += change
                    weight[site] = new
                    count += 1
                    if guarded and _violated(level, valid, 0, EDGE, (1 << 16) - 2 * EDGE) >= 0:
                        return False
                    if sweeps.solve:
                        witness = _violated(level, valid, witness, first, width)
                        if witness < 0:
                            rows.stopped[row] = True
                            break
                rows.accepted[row, t] = count
                rows.energy[row, t] = energy
                if rows.solved_at[row] < 0 and _violated(level, valid, 0, first, width) < 0:
                    rows.solved_at[row] = sweeps.first + t
                if sweeps.draw_at[t] >= 0:
                    for i in range(len(weight)):
                        rows.draws[row, sweeps.draw_at[t], i] = weight[i]
        return True

    return run


run_flips, run_steps = _runner(False), _runner(True)


def run_chains(
    patterns: Patterns, energies: Array, sweeps: Sweeps, rows: Rows, levels: Array, scratch: Scratch, halt: Array,
    prior: Prior | None = None,
) -> bool:  # fmt: skip
    """Run chains through sweeps; return False if a level came near the end of its 16 bits.

    `energies` (stages, levels) int32 holds the energy of each level at each stage, `levels` (k, 32 blocks) uint16 where
    the constraints stand, written; `halt` (1,) is a flag that others may set to end the run at once, in mid-sweep. With a
    `prior` the weights are numbers of levels, which are one step of the lattice apart.
    """
    run = run_flips if prior is None else run_steps
    return bool(run(patterns, energies, sweeps, rows, _NONE if prior is None else prior, levels, scratch, halt))
