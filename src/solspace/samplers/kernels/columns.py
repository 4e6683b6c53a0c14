"""Patterns laid out by columns for the flip kernels, and what chains cache of them: one pass over the patterns each."""

from __future__ import annotations

import numpy as np
from numba import int64, uint16, uint32

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.machine_vectors import add, add_where, get, load, store, subtract, zeros
from solspace.system.compiled import njit


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
