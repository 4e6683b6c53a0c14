"""Single flips of ±1 weights on patterns of any values, in fixed point.

Patterns are rounded once to multiples of 2^-q, with q so large that no stability can overflow 32 bits (finer than
float32 would keep the sums). From there on the chain is exact: a flip adds a column of integers, nothing drifts
however long the run, and the integer energy of a stability is a fixed function of it (`kernels.energies`), so that
sums do not depend on their order.

A proposal evaluates the potential at every constraint; there is no lattice on which to cache differences. Columns are
long, so the chains of a group take each site together: a column is read from memory once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np
from numba import int64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.energies import energies, last_energy
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
)  # isort: skip  # fmt: skip
from solspace.samplers.kernels.philox import thresholds
from solspace.samplers.kernels.rows import Rows, Sweeps
from solspace.system.compiled import njit

TILE = 64
"""Proposals whose thresholds are drawn together."""
STRIDE = 8
"""Vectors of energies whose sum must fit 32 bits; columns are padded to whole strides of 128 constraints."""


class Patterns(NamedTuple):
    """Patterns of any values, rounded to integers."""

    columns: Array
    """(n · size,) int32, twice the patterns' columns one after another; size is a multiple of 128."""
    m: int
    allowed: tuple[int, int]
    """First and last Σ x w at which a constraint is met."""


class Potentials(NamedTuple):
    """What is sampled at each stage: coefficients and marks (`kernels.energies`), and the margin in units of Σ x w."""

    forms: Array
    marks: Array
    margins: Array


def _energy_after(sign: int) -> Callable[..., int]:
    """Return the function that sums the energies of all stabilities less `sign` times a column."""

    @numba.njit
    def energy_after(state, column, columns, form, marks):
        sums = no_longs()
        for first in range(0, len(state), 16 * STRIDE):
            part = zeros()
            for k in range(first, first + 16 * STRIDE, 16):
                t = load(state, k)
                if sign > 0:
                    t = subtract(t, load(columns, column + k))
                elif sign < 0:
                    t = add(t, load(columns, column + k))
                part = add(part, energies(t, form, marks))
            sums = widen(sums, part)
        return total_longs(sums)

    return energy_after


@numba.njit
def _move(state: Array, column: int, columns: Array, weight: int) -> None:
    for k in range(0, len(state), 16):
        step = load(columns, column + k)
        store(state, k, subtract(load(state, k), step) if weight > 0 else add(load(state, k), step))


@numba.njit
def _add(state: Array, value: int) -> None:
    for k in range(len(state)):
        state[k] += value


@numba.njit
def _violated(state: Array, start: int, first: int, last: int) -> int:
    """Return the first place from `start` on, cyclically, with a stability not allowed; -1 if there is none."""
    size = len(state)
    for step in range(0, size, 16):
        k = start + step if start + step < size else start + step - size
        if ints_beyond(load(state, k), first, last):
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
    columns, forms, marks, margins = patterns.columns, potentials.forms, potentials.marks, potentials.margins
    stopped, solved_at, weights = rows.stopped, rows.solved_at, rows.weights
    k, n = weights.shape
    proposals, size = sweeps.orders.shape[1], states.shape[1]
    raw, threshold = np.empty(TILE, np.uint64), np.empty((k, TILE), np.int32)
    energy, witness, margin = np.empty(k, np.int64), np.zeros(k, np.int64), np.zeros(k, np.int64)
    stage, beside = np.empty(k, np.int64), np.empty(k, np.int64)
    first, last = patterns.allowed
    pulled, apart = rows.field.size > 0, sweeps.stride == 0
    form, mark = forms[0], marks[0]
    for t in range(len(sweeps.orders)):
        for row in range(k):
            stage[row] = rows.stage[row] + sweeps.stride * t
            form, mark, state = forms[stage[row]], marks[stage[row]], states[row]
            if margins[stage[row]] != margin[row]:
                _add(state, margin[row] - margins[stage[row]])
                margin[row] = margins[stage[row]]
            beside[row] = (size - patterns.m) * last_energy(load(state, size - 16), form, mark)
            energy[row] = _here(state, 0, columns, form, mark)
            witness[row] = _violated(state, 0, first - margin[row], last - margin[row])
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
                    thresholds(
                        sweeps.key, rows.number[row], sweeps.first + t, p, sweeps.kt[stage[row]], sweeps.bath[t],
                        raw[:ahead], threshold[row, :ahead],
                    )  # fmt: skip
            site = int64(sweeps.orders[t, p])
            column = site * size
            following = int64(sweeps.orders[t, p + 1 if p + 1 < proposals else p]) * size
            for row in range(k):
                for j in range(size * row // k // 16 * 16, size * (row + 1) // k, 16):
                    prefetch(columns, following + j)
                if stopped[row]:
                    continue
                state, w = states[row], weights[row, site]
                if apart:  # a slice here costs as much as a dozen constraints
                    form, mark = forms[stage[row]], marks[stage[row]]
                if w > 0:
                    after = _down(state, column, columns, form, mark)
                else:
                    after = _up(state, column, columns, form, mark)
                pull = int64(0)
                if pulled:
                    pull = w * int64(np.rint(2.0 * sweeps.kt[stage[row]] * rows.field[row, site]))
                if after - energy[row] + pull > threshold[row, p % TILE]:
                    continue
                _move(state, column, columns, w)
                weights[row, site] = -w
                energy[row] = after
                rows.accepted[row, t] += 1
                if sweeps.solve:
                    witness[row] = _violated(state, witness[row], first - margin[row], last - margin[row])
                    if witness[row] < 0:
                        stopped[row] = True
                        rows.energy[row, t] = after - beside[row]
                        solved_at[row] = sweeps.first + t
        for row in range(k):
            if stopped[row]:
                continue
            rows.energy[row, t] = energy[row] - beside[row]
            if solved_at[row] < 0 and _violated(states[row], 0, first - margin[row], last - margin[row]) < 0:
                solved_at[row] = sweeps.first + t
            if sweeps.draw_at[t] >= 0:
                for i in range(n):
                    rows.draws[row, sweeps.draw_at[t], i] = weights[row, i]
    for row in range(k):
        _add(states[row], margin[row])


@njit(nogil=True, error_model="numpy")
def weigh(patterns: Patterns, potentials: Potentials, stage: Array, states: Array, out: Array) -> None:
    """Write the energy (k,) int64 that chains at `states` have at their `stage` (k,)."""
    size = states.shape[1]
    for row in range(len(out)):
        form, mark, margin = potentials.forms[stage[row]], potentials.marks[stage[row]], potentials.margins[stage[row]]
        # moved in place and back: a copy would not be aligned as the vectors are
        state = states[row]
        _add(state, -margin)
        beside = (size - patterns.m) * last_energy(load(state, size - 16), form, mark)
        out[row] = _here(state, 0, patterns.columns, form, mark) - beside
        _add(state, margin)
