"""Single flips of ±1 weights on patterns of any values, in fixed point.

Patterns are rounded once to multiples of 2^-q, with q so large that no stability can overflow 32 bits. From there on the chain is
exact: a flip adds a column of integers, and the integer energy of a stability is a fixed function of it (`kernels.energies`), so
that nothing drifts and sums do not depend on their order. A proposal evaluates the potential at every constraint: there is no
lattice on which to cache differences. Where it is a logarithm a bound rejects most proposals first, as the energies would.
Columns are long, so the chains of a group take each site together: a column is read from memory once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from numba import int64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.energies import bound, energies, exp_at_most, last_energy, product_down, product_up
from solspace.samplers.kernels.flips import Rows, Sweeps
from solspace.samplers.kernels.machine_vectors import (
    add,
    ints_beyond,
    load,
    no_longs,
    prefetch,
    store,
    subtract,
    total_longs,
    widen,
    zeros,
)
from solspace.samplers.kernels.philox import thresholds
from solspace.system.compiled import njit, variant

TILE = 64  # proposals whose thresholds are drawn together
STRIDE = 8  # vectors of energies whose sum must fit 32 bits; columns are padded to whole strides of 128 constraints


class Patterns(NamedTuple):
    """Patterns of any values, rounded to integers."""

    columns: Array  # (n · size,) int32, twice the patterns' columns one after another; size is a multiple of 128
    m: int
    allowed: tuple[int, int]  # first and last Σ x w at which a constraint is met


class Potentials(NamedTuple):
    """What is sampled at each stage: coefficients and marks (`kernels.energies`), the margin in units of Σ x w, and how many
    units make a logarithm where it is one, else 0.
    """

    forms: Array
    marks: Array
    margins: Array
    logarithms: Array


@njit(nogil=True)
def fix_columns(patterns: Array, scale: float, out: Array) -> float:
    """Fill `out` (n, size) int32 with twice rint(scale · patterns), by columns; return the sum of their squares."""
    m, n = patterns.shape
    square = 0.0
    for first in range(0, m, 16):
        last = min(first + 16, m)
        for i in range(n):
            for row in range(first, last):
                value = np.rint(patterns[row, i] * scale)
                square += value * value
                out[i, row] = 2 * int64(value)
    return 4 * square


@njit(nogil=True)
def find_states(columns: Array, weights: Array, out: Array) -> None:
    """Fill `out` (chains, size) int32 with Σ x w, from `columns`, twice the patterns' columns one after another."""
    chains, n = weights.shape
    size = out.shape[1]
    for i in range(n):
        for chain in range(chains):
            state = out[chain]
            for k in range(0, size, 16):
                sums, column = load(state, k), load(columns, i * size + k)
                if i == 0:
                    sums = zeros()
                store(state, k, add(sums, column) if weights[chain, i] > 0 else subtract(sums, column))
    for chain in range(chains):
        for k in range(size):
            out[chain, k] //= 2


def _energy_after(sign: int) -> Callable[..., int]:
    """Return the function that sums the energies of the `size` stabilities from `at` on, less `sign` times a column."""

    @numba.njit
    @variant(sign)
    def energy_after(states, at, size, columns, column, form, marks):
        sums = no_longs()
        for first in range(0, size, 16 * STRIDE):
            part = zeros()
            for k in range(first, first + 16 * STRIDE, 16):
                t = load(states, at + k)
                if sign > 0:
                    t = subtract(t, load(columns, column + k))
                elif sign < 0:
                    t = add(t, load(columns, column + k))
                part = add(part, energies(t, form, marks))
            sums = widen(sums, part)
        return total_longs(sums)

    return energy_after


@numba.njit
def _move(states: Array, at: int, size: int, columns: Array, column: int, weight: int) -> None:
    for k in range(0, size, 16):
        t, step = load(states, at + k), load(columns, column + k)
        store(states, at + k, subtract(t, step) if weight > 0 else add(t, step))


@numba.njit
def _add(states: Array, at: int, size: int, value: int) -> None:
    for k in range(at, at + size):
        states[k] += value


@numba.njit
def _violated(states: Array, at: int, size: int, start: int, first: int, last: int) -> int:
    """Return the first place from `start` on, cyclically, with a stability not allowed; -1 if there is none."""
    for step in range(0, size, 16):
        k = start + step if start + step < size else start + step - size
        if ints_beyond(load(states, at + k), first, last):
            return k
    return -1


_here, _down, _up = (_energy_after(sign) for sign in (0, 1, -1))


@njit(nogil=True, error_model="numpy")
def run_chains(
    patterns: Patterns, potentials: Potentials, sweeps: Sweeps, rows: Rows, states: Array, halt: Array
) -> None:
    """Run chains, side by side, through sweeps; `states` (k, size) int32 holds Σ x w, and is written.

    `halt` (1,) is a flag that others may set to end the run at once, in mid-sweep.
    """
    columns, (forms, marks, margins, logarithms) = patterns.columns, potentials
    stopped, solved_at, weights = rows.stopped, rows.solved_at, rows.weights
    k, n = weights.shape
    proposals, size = sweeps.orders.shape[1], states.shape[1]
    # one array with offsets: slicing rows out of it costs as much as a hundred constraints
    flat = states.reshape(-1)
    raw, drawn = np.empty(TILE, np.uint64), np.empty(TILE, np.int32)
    # chains side by side, as they take a site
    threshold, pull = np.empty((TILE, k), np.int32), np.zeros((TILE, k), np.int64)
    energy, witness, margin = np.empty(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    stage, beside = np.empty(k, np.int64), np.empty(k, np.int64)
    logarithm, least, scale = np.empty(k), np.empty(k), np.empty(k)
    first, last = patterns.allowed
    pulled, apart = rows.field.size > 0, sweeps.stride == 0
    form, mark = forms[0], marks[0]
    for t in range(len(sweeps.orders)):
        for row in range(k):
            at = row * size
            stage[row] = rows.stage[row] + sweeps.stride * t
            form, mark = forms[stage[row]], marks[stage[row]]
            if margins[stage[row]] != margin[row]:
                _add(flat, at, size, margin[row] - margins[stage[row]])
                margin[row] = margins[stage[row]]
            beside[row] = (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
            energy[row] = _here(flat, at, size, columns, 0, form, mark)
            witness[row] = _violated(flat, at, size, 0, first - margin[row], last - margin[row])
            logarithm[row] = logarithms[stage[row]]
            least[row], scale[row] = bound(size, energy[row], witness[row] < 0, logarithm[row], form)
            if sweeps.solve and witness[row] < 0 and not stopped[row]:
                stopped[row] = True
                rows.energy[row, t] = energy[row] - beside[row]
                solved_at[row] = sweeps.first + t
        for p in range(proposals):
            if p % TILE == 0:
                if halt[0]:
                    return
                ahead = min(TILE, proposals - p + (proposals & 1))
                for row in range(k):
                    kt = sweeps.kt[stage[row]]
                    thresholds(
                        sweeps.key, rows.number[row], sweeps.first + t, p, kt, sweeps.bath[t], raw[:ahead], drawn[:ahead]
                    )  # fmt: skip
                    for j in range(min(TILE, proposals - p)):
                        threshold[j, row] = drawn[j]
                        if pulled:
                            pull[j, row] = int64(np.rint(2.0 * kt * rows.field[row, sweeps.orders[t, p + j]]))
            site = int64(sweeps.orders[t, p])
            column = site * size
            following = int64(sweeps.orders[t, p + 1 if p + 1 < proposals else p]) * size
            for row in range(k):
                for j in range(size * row // k // 16 * 16, size * (row + 1) // k, 16):
                    prefetch(columns, following + j)
                if stopped[row]:
                    continue
                at, w = row * size, weights[row, site]
                most = energy[row] - w * pull[p % TILE, row] + threshold[p % TILE, row]
                if logarithm[row] > 0:
                    if w > 0:
                        product = product_down(flat, at, size, columns, column, scale[row])
                    else:
                        product = product_up(flat, at, size, columns, column, scale[row])
                    # not by a logarithm of the product: this way round both sides are found at once
                    if product < exp_at_most((least[row] - most) / logarithm[row]):
                        continue
                if apart:  # a slice here costs as much as a dozen constraints
                    form, mark = forms[stage[row]], marks[stage[row]]
                if w > 0:
                    after = _down(flat, at, size, columns, column, form, mark)
                else:
                    after = _up(flat, at, size, columns, column, form, mark)
                if after > most:
                    continue
                _move(flat, at, size, columns, column, w)
                weights[row, site] = -w
                energy[row] = after
                rows.accepted[row, t] += 1
                if sweeps.solve:
                    witness[row] = _violated(flat, at, size, witness[row], first - margin[row], last - margin[row])
                    if witness[row] < 0:
                        stopped[row] = True
                        rows.energy[row, t] = after - beside[row]
                        solved_at[row] = sweeps.first + t
        for row in range(k):
            if stopped[row]:
                continue
            rows.energy[row, t] = energy[row] - beside[row]
            if solved_at[row] < 0 and _violated(flat, row * size, size, 0, first - margin[row], last - margin[row]) < 0:
                solved_at[row] = sweeps.first + t
            if sweeps.draw_at[t] >= 0:
                for i in range(n):
                    rows.draws[row, sweeps.draw_at[t], i] = weights[row, i]
    for row in range(k):
        _add(flat, row * size, size, margin[row])


@njit(nogil=True, error_model="numpy")
def weigh(patterns: Patterns, potentials: Potentials, stage: Array, states: Array, out: Array) -> None:
    """Write the energy (k,) int64 that chains at `states` have at their `stage` (k,)."""
    size, flat = states.shape[1], states.reshape(-1)
    for row in range(len(out)):
        form, mark, margin = potentials.forms[stage[row]], potentials.marks[stage[row]], potentials.margins[stage[row]]
        at = row * size
        # moved in place and back: a copy would not be aligned as the vectors are
        _add(flat, at, size, -margin)
        beside = (size - patterns.m) * last_energy(load(flat, at + size - 16), form, mark)
        out[row] = _here(flat, at, size, patterns.columns, 0, form, mark) - beside
        _add(flat, at, size, margin)
