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
from numba import float64, int64, types, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.energies import energies, last_energy
from solspace.samplers.kernels.flips import Rows, Sweeps
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
def _energy(flat, at, size, columns, column, by, patterns, form, marks):
    if patterns.powers.size > 0:
        return _powered(flat, at, size, columns, column, by, patterns.powers, form, marks) >> patterns.shift
    return _plain(flat, at, size, columns, column, by, patterns.powers, form, marks)


@numba.njit
def _move(states: Array, at: int, size: int, columns: Array, column: int, by: int) -> None:
    for k in range(0, size, 16):
        store(states, at + k, add_multiple(load(states, at + k), load(columns, column + k), by))


@numba.njit
def _tilt(level: int, field: float, time: float, prior: Prior, kt: float) -> int:
    """Return the log weight of a level in units of the energies, an integer."""
    value = prior.values[level]
    return int64(np.rint(kt * (prior.logs[level] + field * value - 0.5 * time * value * value)))


@numba.njit
def slide(flat, at, size, patterns, prior, form, marks, kt, energy, b, key, chain, sweep, move):
    """Move the intercept `b` of a chain; return where it is then, and the energy there."""
    first = 64 * move
    a, c, d, e = philox_words(first, sweep, chain, INTERCEPT, key)
    f, g, _, _ = philox_words(first + 1, sweep, chain, INTERCEPT, key)
    most = energy + int64(_minus_log(_uniform((c << uint64(32)) | a)) * kt)
    turn = 2.0 * np.pi
    angle = turn * _uniform((e << uint64(32)) | d)
    other = prior.width * np.sqrt(2.0 * _minus_log(_uniform((g << uint64(32)) | f)))
    a, c, _, _ = philox_words(first + 2, sweep, chain, INTERCEPT, key)
    other *= np.cos(turn * _uniform((c << uint64(32)) | a))
    low, high, place = angle - turn, angle, np.rint(b / prior.unit)
    for trial in range(TRIALS):
        there = b * np.cos(angle) + other * np.sin(angle)
        if abs(there) <= prior.limit:
            by = int64(np.rint(there / prior.unit) - place)
            after = _energy(flat, at, size, patterns.signs, 0, by, patterns, form, marks)
            if after <= most:
                _move(flat, at, size, patterns.signs, 0, by)
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
    columns, (forms, marks, margins, _) = patterns.columns, potentials
    stopped, solved_at, codes = rows.stopped, rows.solved_at, rows.weights
    k, n = codes.shape
    proposals, size, others = sweeps.orders.shape[1], states.shape[1], len(prior.values) - 1
    flat = states.reshape(-1)
    raw, drawn = np.empty(TILE, np.uint64), np.empty(TILE, np.int32)
    threshold, choice = np.empty((TILE, k), np.int32), np.zeros((TILE, k), np.int64)
    energy, witness, margin = np.empty(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    stage, beside = np.empty(k, np.int64), np.zeros(k, np.int64)
    first, last = patterns.allowed
    fielded, apart = rows.field.size > 0, sweeps.stride == 0
    sliding, every = own.intercepts.shape[1] > 0, max(1, -(-proposals // prior.moves))
    form, mark = forms[0], marks[0]
    for t in range(len(sweeps.orders)):
        for row in range(k):
            at = row * size
            stage[row] = rows.stage[row] + sweeps.stride * t
            form, mark = forms[stage[row]], marks[stage[row]]
            if margins[stage[row]] != margin[row]:
                _add(flat, at, size, margin[row] - margins[stage[row]])
                margin[row] = margins[stage[row]]
            if patterns.powers.size == 0:
                beside[row] = (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
            energy[row] = _energy(flat, at, size, columns, 0, 0, patterns, form, mark)
            witness[row] = _violated(flat, at, size, 0, first - margin[row], last - margin[row])
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
                        sweeps.key, rows.number[row], sweeps.first + t, p, sweeps.kt[stage[row]], sweeps.bath[t],
                        raw[:ahead], drawn[:ahead],
                    )  # fmt: skip
                    for j in range(min(TILE, proposals - p)):
                        threshold[j, row] = drawn[j]
                    if others > 1:
                        for block in range((ahead + 3) // 4):
                            words = philox_words(p // 4 + block, sweeps.first + t, rows.number[row], LEVEL, sweeps.key)
                            for part in range(4):
                                choice[4 * block + part, row] = int64((words[part] * uint64(others)) >> uint64(32))
            site = int64(sweeps.orders[t, p]) if p < proposals else 0
            following = int64(sweeps.orders[t, p + 1]) if p + 1 < proposals else site
            for row in range(k):
                for j in range(size * row // k // 16 * 16, size * (row + 1) // k, 16):
                    prefetch(columns, following * size + j)
                if stopped[row]:
                    continue
                at, kt = row * size, sweeps.kt[stage[row]]
                if apart:  # a slice here costs as much as a dozen constraints
                    form, mark = forms[stage[row]], marks[stage[row]]
                if sliding and p % every == 0:
                    own.intercepts[row, 0], energy[row] = slide(
                        flat, at, size, patterns, prior, form, mark, kt, energy[row], own.intercepts[row, 0],
                        sweeps.key, rows.number[row], sweeps.first + t, p // every,
                    )  # fmt: skip
                if p < proposals:
                    old = int64(codes[row, site])
                    new = choice[p % TILE, row]
                    new += new >= old
                    field = rows.field[row, site] if fielded else 0.0
                    pull = _tilt(new, field, own.times[row], prior, kt) - _tilt(old, field, own.times[row], prior, kt)
                    by = prior.multiples[new] - prior.multiples[old]
                    after = _energy(flat, at, size, columns, site * size, by, patterns, form, mark)
                    if after - energy[row] - pull <= threshold[p % TILE, row]:
                        _move(flat, at, size, columns, site * size, by)
                        codes[row, site] = new
                        energy[row] = after
                        rows.accepted[row, t] += 1
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
                    own.shifts[row, sweeps.draw_at[t], 0] = own.intercepts[row, 0]
    for row in range(k):
        _add(flat, row * size, size, margin[row])


@njit(nogil=True, error_model="numpy")
def weigh(patterns: Patterns, potentials: Potentials, stage: Array, states: Array, out: Array) -> None:
    """Write the energy (k,) int64 that chains at `states` have at their `stage` (k,)."""
    size, flat = states.shape[1], states.reshape(-1)
    for row in range(len(out)):
        form, mark, margin = potentials.forms[stage[row]], potentials.marks[stage[row]], potentials.margins[stage[row]]
        at = row * size
        _add(flat, at, size, -margin)
        out[row] = _energy(flat, at, size, patterns.columns, 0, 0, patterns, form, mark)
        if patterns.powers.size == 0:
            out[row] -= (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
        _add(flat, at, size, margin)


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


@njit(error_model="numpy")
def first_intercepts(key: np.uint64, width: float, out: Array) -> None:
    """Fill `out` (chains,) with draws from N(0, width²)."""
    for c in range(len(out)):
        a, b, d, e = philox_words(0xFFFFFFFF, 0, c, START, key)
        angle = 2.0 * np.pi * _uniform((e << uint64(32)) | d)
        out[c] = width * np.sqrt(2.0 * _minus_log(_uniform((b << uint64(32)) | a))) * np.cos(angle)
