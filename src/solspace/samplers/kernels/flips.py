"""What the flip kernels take: sweeps, chains, and where the coefficients of potentials in fixed point lie."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solspace.numerics.arrays import Array

DEGREE = 6  # of the polynomial h
# where the coefficients of a power form lie: A (32), B (32), h from its highest power down, c0, c1
A, B, H, C = 0, 32, 64, 64 + DEGREE + 1
EXPONENT = 31  # entry of A and B for the exponent 0: the kernel counts them by the exponent field of float32, modulo 32
OCTAVES, CELLS, JUMPS = 31, 128, 4  # octaves of t, cells in each, and most jumps of a potential in the cell form
SIDE = OCTAVES * CELLS
# where the coefficients of a cell form lie: values of all cells, those of t >= 0 first; their slopes; energy at t = 0; height and
# slope beyond the ends of what is allowed; heights of the jumps
VALUE, SLOPE, ZERO, WALLED, STEEP, JUMP = 0, 2 * SIDE, 4 * SIDE, 4 * SIDE + 1, 4 * SIDE + 2, 4 * SIDE + 3
# mark of a cell form behind its ends and jumps: the half width at which it is folded, 0 where it is not
HALF = 2 + JUMPS


class Sweeps(NamedTuple):
    key: np.uint64  # the call's key, from which all random numbers are made
    first: int  # number of the first
    kt: Array  # (stages,) float64 kT in units of the energies, 0 at T = 0
    stride: int  # stages from one sweep to the next: 1, or 0 where every chain keeps its own
    orders: Array  # (sweeps, n) int32 sites in the order of their proposals
    bath: Array  # (sweeps,) whether the heat bath decides rather than Metropolis
    draw_at: Array  # (sweeps,) number of the draw that each ends in, or -1
    solve: bool  # whether to stop a chain at its first solution


class Rows(NamedTuple):
    """Some chains, a row for each: their state and, from `weights` on, what is written."""

    number: Array  # (k,) numbers of the chains
    stage: Array  # (k,) stage of the first sweep
    field: Array  # (k, n) float64 h of the measure p(w) exp(⟨h, w⟩), or (0, 0): none. Does not count at T = 0
    weights: Array  # (k, n) int8
    draws: Array  # (k, draws, n) int8
    accepted: Array  # (k, sweeps) int32 flips made
    energy: Array  # (k, sweeps) int64 energy at the end, without the field's
    solved_at: Array  # (k,) int64 sweep at which every constraint was first met, -1 so far
    stopped: Array  # (k,) bool
