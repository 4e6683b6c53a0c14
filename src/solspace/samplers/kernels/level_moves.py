"""Moves of single weights between levels, and of an intercept, on patterns of any values, in fixed point.

Patterns and energies are those of `kernels.flips_real`, so that a chain is exact from there on: a move adds a multiple of a
column of integers. A weight goes from its level to another one, all others being equally likely; the difference of the log
probabilities of the two levels, with a field, is added to the threshold. An intercept b ~ N(0, width²) moves on an ellipse
through an auxiliary draw from its prior, by slice sampling of the angle (Murray, Adams, MacKay 2010): exact, and there is no
step size to choose. Constraints may have powers, integers by which their energies are multiplied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from llvmlite.ir import IRBuilder, Value
from numba import int64, types, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.energies import (
    BLOCK,
    LEAST_WHOLE,
    _ones,
    _times,
    _whole,
    bound,
    energies,
    exp_at_most,
    last_energy,
)
from solspace.samplers.kernels.flips import Rows, Sweeps
from solspace.samplers.kernels.flips_integer import tilt
from solspace.samplers.kernels.flips_real import STRIDE, TILE, Potentials, _add, _violated
from solspace.samplers.kernels.machine_vectors import (
    INTS,
    LONGS,
    _splat,
    add,
    ints,
    load,
    longs,
    no_longs,
    operation,
    prefetch,
    store,
    total_longs,
    widen,
    zeros,
)
from solspace.samplers.kernels.philox import (
    INTERCEPT,
    LEVEL,
    START,
    _minus_log,
    _uniform,
    philox_words,
    thresholds,
)
from solspace.system.compiled import njit, variant

TRIALS = 60  # angles that are tried at most; the bracket is then narrower than any likelihood


class Patterns(NamedTuple):
    columns: Array  # (n · size,) int32 in units of a level, one column after another; size is a multiple of 128
    signs: Array  # (size,) int32 what the intercept is multiplied by, zero behind the last constraint; (0,) without one
    powers: Array  # (size,) int32, zero behind the last constraint; (0,): all are 1
    shift: int  # by which sums of energies times powers are shifted to the right
    m: int
    allowed: tuple[int, int]  # first and last Σ x w at which a constraint is met


class Prior(NamedTuple):
    multiples: Array  # (L,) int64 levels in units of which columns are
    values: Array  # (L,) float64 levels
    logs: Array  # (L,) float64 log probabilities
    width: float  # of the intercept's prior
    unit: float  # of the intercept, in which it is added to Σ x w
    limit: float  # largest intercept in absolute value
    moves: int  # of the intercept in a sweep


class Own(NamedTuple):
    """What chains have beside `Rows`, whose weights and draws are numbers of levels here, uint8."""

    times: Array  # (k,) t of the measure p(w) exp(⟨h, w⟩ - t |w|²/2)
    intercepts: Array  # (k, 1) float64, written; (k, 0) without one
    shifts: Array  # (k, draws, 1) intercepts drawn, written; (k, draws, 0) without one


@operation(ints, ints, ints, types.int64)
def add_multiple(b: IRBuilder, vector: Value, column: Value, by: Value) -> Value:
    return b.add(vector, b.mul(column, _splat(b, by, INTS)))


@operation(longs, longs, ints, ints)
def add_products(b: IRBuilder, sums: Value, left: Value, right: Value) -> Value:
    return b.add(sums, b.mul(b.sext(left, LONGS), b.sext(right, LONGS)))


def _energy_after(powered: bool) -> Callable[..., int]:
    """Return the function that sums the energies of the `size` stabilities from `at` on, plus `by` times a column."""

    @numba.njit
    @variant(powered)
    def energy_after(states, at, size, columns, column, by, powers, form, marks):
        sums = no_longs()
        for first in range(0, size, 16 * STRIDE):
            part = zeros()
            for k in range(first, first + 16 * STRIDE, 16):
                found = energies(add_multiple(load(states, at + k), load(columns, column + k), by), form, marks)
                if powered:
                    sums = add_products(sums, found, load(powers, k))
                else:
                    part = add(part, found)
            if not powered:
                sums = widen(sums, part)
        return total_longs(sums)

    return energy_after


_plain, _powered = _energy_after(False), _energy_after(True)


@numba.njit
def _energy(flat, at, size, columns, column, by, powers, shift, form, marks):
    if powers.size > 0:
        return _powered(flat, at, size, columns, column, by, powers, form, marks) >> shift
    return _plain(flat, at, size, columns, column, by, powers, form, marks)


@numba.njit(inline="always")
def _four(product, states, at, columns, column, by, scale):
    s = add_multiple(load(states, at), load(columns, column), by)
    t = add_multiple(load(states, at + 16), load(columns, column + 16), by)
    u = add_multiple(load(states, at + 32), load(columns, column + 32), by)
    v = add_multiple(load(states, at + 48), load(columns, column + 48), by)
    return _times(product, s, t, u, v, scale)


@numba.njit
def _product(states, at, size, columns, column, by, scale):
    """Return what `energies.product_up` does, for `by` times a column."""
    found = 1.0
    for first in range(0, size, BLOCK):
        one, two = _ones(), _ones()
        for k in range(first, min(first + BLOCK, size), 128):
            one = _four(one, states, at + k, columns, column + k, by, scale)
            two = _four(two, states, at + k + 64, columns, column + k + 64, by, scale)
        found = max(found * _whole(one, two), LEAST_WHOLE)
    return found


@numba.njit
def _move(states: Array, at: int, size: int, columns: Array, column: int, by: int) -> None:
    for k in range(0, size, 16):
        store(states, at + k, add_multiple(load(states, at + k), load(columns, column + k), by))


@numba.njit
def slide(
    flat, at, size, signs, powers, shift, width, unit, limit, form, marks, kt, energy, b, key, chain, sweep, move
):
    """Move the intercept `b` of a chain; return where it is then, and the energy there."""
    first = 64 * move
    a, c, d, e = philox_words(first, sweep, chain, INTERCEPT, key)
    f, g, _, _ = philox_words(first + 1, sweep, chain, INTERCEPT, key)
    most = energy + int64(_minus_log(_uniform((c << uint64(32)) | a)) * kt)
    turn = 2.0 * np.pi
    angle = turn * _uniform((e << uint64(32)) | d)
    other = width * np.sqrt(2.0 * _minus_log(_uniform((g << uint64(32)) | f)))
    a, c, _, _ = philox_words(first + 2, sweep, chain, INTERCEPT, key)
    other *= np.cos(turn * _uniform((c << uint64(32)) | a))
    low, high, place = angle - turn, angle, np.rint(b / unit)
    for trial in range(TRIALS):
        there = b * np.cos(angle) + other * np.sin(angle)
        if abs(there) <= limit:
            by = int64(np.rint(there / unit) - place)
            after = _energy(flat, at, size, signs, 0, by, powers, shift, form, marks)
            if after <= most:
                _move(flat, at, size, signs, 0, by)
                return there, after
        if angle < 0.0:
            low = angle
        else:
            high = angle
        a, c, _, _ = philox_words(first + 3 + trial, sweep, chain, INTERCEPT, key)
        angle = low + (high - low) * _uniform((c << uint64(32)) | a)
    return b, energy


@njit(nogil=True, error_model="numpy")
def run_chains(
    patterns: Patterns, potentials: Potentials, prior: Prior, sweeps: Sweeps, rows: Rows, own: Own, states: Array,
    halt: Array,
) -> None:  # fmt: skip
    """Run chains, side by side, through sweeps; `states` (k, size) int32 holds Σ x w, and is written.

    `halt` (1,) is a flag that others may set to end the run at once, in mid-sweep.
    """
    # arrays by themselves: taken out of a tuple at every move they cost as much as a hundred constraints
    (columns, signs, powers, shift, _, _), (forms, marks, margins, logarithms) = patterns, potentials
    stopped, solved_at, codes = rows.stopped, rows.solved_at, rows.weights
    k, n = codes.shape
    proposals, size, others = sweeps.orders.shape[1], states.shape[1], len(prior.values) - 1
    flat = states.reshape(-1)
    raw, drawn = np.empty(TILE, np.uint64), np.empty(TILE, np.int32)
    threshold, choice = np.empty((TILE, k), np.int32), np.zeros((TILE, k), np.int64)
    energy, witness, margin = np.empty(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    stage, beside = np.empty(k, np.int64), np.zeros(k, np.int64)
    logarithm, least, scale = np.zeros(k), np.empty(k), np.empty(k)
    first, last = patterns.allowed
    multiples, values, logs, width, unit, limit, moves = prior
    fields, orders, kts, times, intercepts = rows.field, sweeps.orders, sweeps.kt, own.times, own.intercepts
    accepted, numbers = rows.accepted, rows.number
    fielded, apart = fields.size > 0, sweeps.stride == 0
    sliding, every = intercepts.shape[1] > 0, max(1, -(-proposals // moves))
    form, mark = forms[0], marks[0]
    for t in range(len(orders)):
        for row in range(k):
            at = row * size
            stage[row] = rows.stage[row] + sweeps.stride * t
            form, mark = forms[stage[row]], marks[stage[row]]
            if margins[stage[row]] != margin[row]:
                _add(flat, at, size, margin[row] - margins[stage[row]])
                margin[row] = margins[stage[row]]
            if powers.size == 0:
                beside[row] = (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
                logarithm[row] = logarithms[stage[row]]
            energy[row] = _energy(flat, at, size, columns, 0, 0, powers, shift, form, mark)
            witness[row] = _violated(flat, at, size, 0, first - margin[row], last - margin[row])
            least[row], scale[row] = bound(size, energy[row], witness[row] < 0, logarithm[row], form)
            if sweeps.solve and witness[row] < 0 and not stopped[row]:
                stopped[row] = True
                rows.energy[row, t] = energy[row] - beside[row]
                solved_at[row] = sweeps.first + t
        for p in range(max(proposals, 1)):
            if p % TILE == 0:
                if halt[0]:
                    return
                ahead = min(TILE, proposals - p + (proposals & 1))
                for row in range(k):
                    thresholds(
                        sweeps.key, numbers[row], sweeps.first + t, p, kts[stage[row]], sweeps.bath[t],
                        raw[:ahead], drawn[:ahead],
                    )  # fmt: skip
                    for j in range(min(TILE, proposals - p)):
                        threshold[j, row] = drawn[j]
                    if others > 1:
                        for block in range((ahead + 3) // 4):
                            words = philox_words(p // 4 + block, sweeps.first + t, numbers[row], LEVEL, sweeps.key)
                            for part in range(4):
                                choice[4 * block + part, row] = int64((words[part] * uint64(others)) >> uint64(32))
            site = int64(orders[t, p]) if p < proposals else 0
            following = int64(orders[t, p + 1]) if p + 1 < proposals else site
            for row in range(k):
                for j in range(size * row // k // 16 * 16, size * (row + 1) // k, 16):
                    prefetch(columns, following * size + j)
                if stopped[row]:
                    continue
                at, kt = row * size, kts[stage[row]]
                if apart:  # a slice here costs as much as a dozen constraints
                    form, mark = forms[stage[row]], marks[stage[row]]
                if sliding and p % every == 0:
                    intercepts[row, 0], energy[row] = slide(
                        flat, at, size, signs, powers, shift, width, unit, limit, form, mark, kt, energy[row], intercepts[row, 0],
                        sweeps.key, numbers[row], sweeps.first + t, p // every,
                    )  # fmt: skip
                if p < proposals:
                    old = int64(codes[row, site])
                    new = choice[p % TILE, row]
                    new += new >= old
                    field = fields[row, site] if fielded else 0.0
                    pull = tilt(new, values, logs, field, times[row], kt)
                    pull -= tilt(old, values, logs, field, times[row], kt)
                    by = multiples[new] - multiples[old]
                    most = energy[row] + pull + threshold[p % TILE, row]
                    after = most + 1
                    if logarithm[row] == 0.0 or _product(
                        flat, at, size, columns, site * size, by, scale[row]
                    ) >= exp_at_most((least[row] - most) / logarithm[row]):
                        after = _energy(flat, at, size, columns, site * size, by, powers, shift, form, mark)
                    if after <= most:
                        _move(flat, at, size, columns, site * size, by)
                        codes[row, site] = new
                        energy[row] = after
                        accepted[row, t] += 1
                if sweeps.solve:
                    witness[row] = _violated(flat, at, size, witness[row], first - margin[row], last - margin[row])
                    if witness[row] < 0:
                        stopped[row] = True
                        rows.energy[row, t] = energy[row] - beside[row]
                        solved_at[row] = sweeps.first + t
        for row in range(k):
            if stopped[row]:
                continue
            rows.energy[row, t] = energy[row] - beside[row]
            if solved_at[row] < 0 and _violated(flat, row * size, size, 0, first - margin[row], last - margin[row]) < 0:
                solved_at[row] = sweeps.first + t
            if sweeps.draw_at[t] >= 0:
                for i in range(n):
                    rows.draws[row, sweeps.draw_at[t], i] = codes[row, i]
                if sliding:
                    own.shifts[row, sweeps.draw_at[t], 0] = intercepts[row, 0]
    for row in range(k):
        _add(flat, row * size, size, margin[row])


@njit(nogil=True, error_model="numpy")
def weigh(patterns: Patterns, potentials: Potentials, stage: Array, states: Array, out: Array) -> None:
    """Write the energy (k,) int64 that chains at `states` have at their `stage` (k,)."""
    (columns, _, powers, shift, _, _) = patterns
    size, flat = states.shape[1], states.reshape(-1)
    for row in range(len(out)):
        form, mark, margin = potentials.forms[stage[row]], potentials.marks[stage[row]], potentials.margins[stage[row]]
        at = row * size
        _add(flat, at, size, -margin)
        out[row] = _energy(flat, at, size, columns, 0, 0, powers, shift, form, mark)
        if powers.size == 0:
            out[row] -= (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
        _add(flat, at, size, margin)


@njit(error_model="numpy")
def first_intercepts(key: np.uint64, width: float, out: Array) -> None:
    """Fill `out` (chains,) with draws from N(0, width²)."""
    for c in range(len(out)):
        a, b, d, e = philox_words(0xFFFFFFFF, 0, c, START, key)
        angle = 2.0 * np.pi * _uniform((e << uint64(32)) | d)
        out[c] = width * np.sqrt(2.0 * _minus_log(_uniform((b << uint64(32)) | a))) * np.cos(angle)
