"""Moves of real weights by slice sampling: rotations of two weights in their plane, for any density and field.

A move turns (w_i, w_j) by an angle θ: a level is drawn below the present log weight, and angles in a bracket that shrinks
towards θ = 0 until one lies above it (Neal 2003; Murray, Adams, MacKay 2010). It costs two columns of the patterns a trial, ends
early at hard walls, has no step size, and keeps |w|² to rounding.

* On the sphere a sweep turns every weight once, with a partner.
* An independent Gaussian weight turns with a fresh partner N(0, σ²), which no constraint sees, about its mean σ² h: prior and
  field are then in the partner's law and not in the level.

Where stabilities are recomputed from the weights before every sweep, a run that was interrupted goes on as if it had not been.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import float64, uint64

from solspace.numerics.arrays import Array
from solspace.samplers.kernels import philox
from solspace.samplers.kernels.densities import BLOCK, FLAT, Forms, moved
from solspace.samplers.kernels.flips import Rows, Sweeps
from solspace.samplers.kernels.philox import ACCEPTANCE, START
from solspace.system.compiled import njit

TRIALS = 118  # angles of a move at most: enough to shrink a bracket to rounding
BLOCKS = 32  # of random numbers that a move owns
STEEP = 48.0  # energy in kT of a chain on the wrong side of a wall, for each 1/√n of distance


philox_words: Any = philox.philox_words
count: Any = uint64  # of a loop whose index is never negative, so that it becomes vectors


class Problem(NamedTuple):
    """What is sampled, beside the weights' prior."""

    columns: Array  # (n, m) patterns by columns, int8 or floating point
    scale: float  # 1/√n
    powers: Array  # (m,) powers of the constraints, or (0,)
    forms: Forms  # log weights of the stages, distances from what each allows, and the distance from what the target allows
    heat: Array  # (stages,) what -log weight is multiplied with to make U
    every: int  # sweeps after which stabilities are recomputed from the weights


class Prior(NamedTuple):
    """The weights given the field: the first `sphere` of them on the sphere, the others independent and Gaussian."""

    sphere: int
    reach: Array  # (k,) distance that a pair on the sphere may move at once; infinite: round the whole circle
    mean: Array  # (k, n), of the others; (0, 0) where there are none
    spread: Array  # (k, n) standard deviations


@numba.njit(error_model="numpy")
def _fraction(word: int) -> float:
    return (float64(word) + 0.5) * 2.0**-32


@numba.njit(error_model="numpy")
def _normal(key: np.uint64, block: int, sweep: int, chain: int, stream: int) -> float:
    a, b, c, _ = philox_words(block, sweep, chain, stream, key)
    u = (float64((a << uint64(21)) ^ b) + 0.5) * 2.0**-53
    return np.sqrt(-2.0 * np.log(u)) * np.cos(2.0 * np.pi * _fraction(c))


@njit(nogil=True, error_model="numpy")
def first_weights(key: np.uint64, numbers: Array, out: Array) -> None:
    """Fill `out` (k, n) with standard normal deviates of the chains `numbers`."""
    for row in range(len(out)):
        for i in range(out.shape[1]):
            out[row, i] = _normal(key, i, 0, numbers[row], START)


@njit(nogil=True, error_model="numpy")
def find_states(columns: Array, scale: float, weights: Array, out: Array) -> None:
    """Fill `out` (m,) with scale · Σ_i x_i w_i, in one order."""
    n, m = columns.shape
    for k in range(count(m)):
        out[k] = 0.0
    for i in range(0, n - n % 4, 4):
        a, b, c, d = columns[i], columns[i + 1], columns[i + 2], columns[i + 3]
        u, v, w, z = weights[i] * scale, weights[i + 1] * scale, weights[i + 2] * scale, weights[i + 3] * scale
        for k in range(count(m)):
            out[k] += (u * a[k] + v * b[k]) + (w * c[k] + z * d[k])
    for i in range(n - n % 4, n):
        a, u = columns[i], weights[i] * scale
        for k in range(count(m)):
            out[k] += u * a[k]


@njit(nogil=True, error_model="numpy")
def turn(
    forms: Forms, stage: int, s: Array, powers: Array, x: Array, y: Array, scale: float, at: float, u: float, v: float,
    pull: float, beside: float, width: float, cold: bool, key: np.uint64, move: int, sweep: int, chain: int, out: Array,
    room: Array,
) -> tuple[float, float, float, int]:  # fmt: skip
    """Draw an angle: return by how much the pair (u, v) moves, the log weight there, and how many angles were tried.

    `at` is the log weight of the stabilities `s`; `x` and `y` are columns, y (0,) where no constraint sees the partner,
    and `pull`, `beside` their fields. The bracket, of this `width`, lies anywhere about 0. When `cold`, an angle is taken that
    lowers no log weight. `out` (m,) takes the new stabilities.
    """
    a, b, c, d = philox_words(BLOCKS * move, sweep, chain, ACCEPTANCE, key)
    level = at if cold else at + np.log((float64((a << uint64(21)) ^ b) + 0.5) * 2.0**-53)
    high = width * _fraction(c)
    low = high - width
    angle = low + width * _fraction(d)
    flat, alone = forms.kinds[stage] == FLAT, len(y) == 0
    for trial in range(1, TRIALS + 1):
        cosine, sine = np.cos(angle) - 1.0, np.sin(angle)
        first, second = u * cosine - v * sine, u * sine + v * cosine
        least = level - pull * first - beside * second
        if not flat or least <= 0.0:
            if alone:
                value = moved(forms, stage, s, powers, x, scale * first, x, 0.0, out, room)
            else:
                value = moved(forms, stage, s, powers, x, scale * first, y, scale * second, out, room)
            if value >= least:
                return first, second, value, trial
        if angle < 0.0:
            low = angle
        else:
            high = angle
        a, b, c = b, c, d
        if trial % 4 == 1:
            a, b, c, d = philox_words(BLOCKS * move + (trial + 3) // 4, sweep, chain, ACCEPTANCE, key)
        angle = low + (high - low) * _fraction(a)
    return 0.0, 0.0, at, TRIALS


@numba.njit(error_model="numpy")
def _weight(problem: Problem, stage: int, s: Array, out: Array, room: Array) -> float:
    return moved(problem.forms, stage, s, problem.powers, s, 0.0, s, 0.0, out, room)


@numba.njit(error_model="numpy")
def _energy(problem: Problem, stage: int, s: Array, out: Array, room: Array) -> float:
    found = 0.0 - _weight(problem, stage, s, out, room)
    if found == np.inf:
        return -STEEP / problem.scale * _weight(problem, len(problem.heat) + stage, s, out, room)
    return found


@numba.njit(error_model="numpy")
def _solved(problem: Problem, s: Array, out: Array, room: Array) -> bool:
    return _weight(problem, 2 * len(problem.heat), s, out, room) == 0.0


@njit(nogil=True, error_model="numpy")
def weigh(problem: Problem, stage: Array, states: Array, energies: Array) -> None:
    """Fill `energies` (k,) in kT of chains at `states` at their `stage`: finite also beyond a wall."""
    room, out = np.empty(BLOCK), np.empty(states.shape[1])
    for row in range(len(energies)):
        energies[row] = _energy(problem, stage[row], states[row], out, room)


@njit(nogil=True, error_model="numpy")
def run_chains(problem: Problem, prior: Prior, sweeps: Sweeps, rows: Rows, states: Array, halt: Array) -> None:
    """Run chains, side by side, through sweeps; `states` (k, m) is written.

    `sweeps.orders` are the weights on the sphere, which are turned in pairs, and behind them the others. `halt` (1,) is a flag
    that others may set to end the run at once, in mid-sweep.
    """
    k, m, n = states.shape[0], states.shape[1], rows.weights.shape[1]
    stages, sphere, pulled = len(problem.heat), prior.sphere, rows.field.size > 0
    columns, powers, forms, scale, key = problem.columns, problem.powers, problem.forms, problem.scale, sweeps.key
    # the stabilities of a chain are in one of two places, and the move that is tried in the other
    both, place = np.empty((2, k, m)), np.zeros(k, np.int64)
    both[0] = states
    room, none, pairs = np.empty(BLOCK), columns[0][:0], (sphere + 1) // 2
    at, form, cold, lost = np.zeros(k), np.zeros(k, np.int64), np.zeros(k, np.bool_), np.zeros(k, np.bool_)
    tried, made = np.zeros(k, np.int64), np.zeros(k, np.int64)
    for t in range(len(sweeps.orders)):
        now, order = sweeps.first + t, sweeps.orders[t]
        for row in range(k):
            stage, s, out = rows.stage[row] + sweeps.stride * t, both[place[row], row], both[1 - place[row], row]
            if rows.stopped[row]:
                continue
            if now % problem.every == 0:
                _onto_sphere(rows.weights[row], sphere)
                find_states(columns, scale, rows.weights[row], s)
            form[row], at[row], cold[row] = stage, _weight(problem, stage, s, out, room), sweeps.kt[stage] == 0.0
            lost[row], tried[row], made[row] = at[row] == -np.inf, 0, 0
            if lost[row]:  # downhill to where the weight is positive
                form[row], cold[row] = stages + stage, True
                at[row] = _weight(problem, form[row], s, out, room)
        for p in range(pairs + len(order) - sphere):
            if halt[0]:
                return
            pair = p < pairs
            i = order[2 * p] if pair else order[sphere + p - pairs]
            j = order[(2 * p + 1) % sphere] if pair else i
            x, y = columns[i], columns[j] if pair else none
            for row in range(k):
                if rows.stopped[row]:
                    continue
                w, number, pull, beside, width = rows.weights[row], rows.number[row], 0.0, 0.0, 2.0 * np.pi
                if pair:
                    u, v = w[i], w[j]
                    if pulled and not cold[row]:
                        pull, beside = rows.field[row, i], rows.field[row, j]
                        width = min(width, prior.reach[row] / np.sqrt(u * u + v * v))
                else:
                    u = w[i] - prior.mean[row, i]
                    v = prior.spread[row, i] * _normal(key, BLOCKS * p + BLOCKS - 1, now, number, ACCEPTANCE)
                a, b, at[row], trials = turn(
                    forms, form[row], both[place[row], row], powers, x, y, scale, at[row], u, v, pull, beside, width,
                    cold[row], key, p, now, number, both[1 - place[row], row], room,
                )  # fmt: skip
                tried[row] += trials
                if a == 0.0 and b == 0.0:
                    continue
                made[row] += 1
                place[row] = 1 - place[row]
                w[i] += a
                if pair:
                    w[j] += b
                if sweeps.solve or (lost[row] and at[row] == 0.0):
                    s, out, stage = (
                        both[place[row], row],
                        both[1 - place[row], row],
                        rows.stage[row] + sweeps.stride * t,
                    )
                    if lost[row] and at[row] == 0.0:
                        found = _weight(problem, stage, s, out, room)
                        if found > -np.inf:
                            lost[row], form[row], at[row], cold[row] = False, stage, found, sweeps.kt[stage] == 0.0
                    if sweeps.solve and _solved(problem, s, out, room):
                        rows.stopped[row] = True
                        _record(problem, sweeps, rows, row, t, s, tried[row], made[row], out, room)
        for row in range(k):
            if not rows.stopped[row]:
                s, out = both[place[row], row], both[1 - place[row], row]
                _record(problem, sweeps, rows, row, t, s, tried[row], made[row], out, room)
                if sweeps.draw_at[t] >= 0:
                    for i in range(n):
                        rows.draws[row, sweeps.draw_at[t], i] = rows.weights[row, i]
    for row in range(k):
        states[row] = both[place[row], row]


@numba.njit(error_model="numpy")
def _record(
    problem: Problem, sweeps: Sweeps, rows: Rows, row: int, t: int, s: Array, tried: int, made: int, out: Array, room: Array
) -> None:  # fmt: skip
    stage = rows.stage[row] + sweeps.stride * t
    rows.energy[row, t] = _energy(problem, stage, s, out, room) * problem.heat[stage]
    rows.accepted[row, t] = np.int32(rows.weights.shape[1] * made / max(tried, 1))
    if rows.solved_at[row] < 0 and _solved(problem, s, out, room):
        rows.solved_at[row] = sweeps.first + t


@numba.njit(error_model="numpy")
def _onto_sphere(w: Array, sphere: int) -> None:
    square = 0.0
    for i in range(sphere):
        square += w[i] * w[i]
    for i in range(sphere):
        w[i] *= np.sqrt(sphere / square)
