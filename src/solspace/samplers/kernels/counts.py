"""Compiled searches that count: depth first over the weights, with what each constraint can still lose.

The *slack* of a constraint is the largest stability that the weights yet to be chosen allow, less the least that is allowed.
Every choice lowers it by a *penalty* >= 0, and nothing below a negative slack meets the constraint.

`signs` counts ±1 weights on ±1 patterns, whose slack is a number of disagreements: eight slacks are the bytes of a word, blocks
of five weights are tried at once, and the last six are one set of 64 bits a constraint and slack. `descend` takes any numbers.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.compiled import FAST, njit

BLOCK, LAST = 5, 6  # weights that are tried together, and those in a set of bits
MOST = 127  # weights of `signs`: a slack is seven bits of a byte
GUARD = np.uint64(0x8080808080808080)
_one, _byte = np.uint64(1), np.uint64(255)


class SignTables(NamedTuple):
    """What `signs` needs of ±1 patterns: the penalties of every block, and the sets of the last weights."""

    penalties: Array  # (blocks, words, 32) uint64
    sets: Array  # (8 words, 256) uint64, by constraint and guarded slack
    slack: Array  # (words,) uint64, before any choice
    bits: int  # weights in a set


def sign_tables(patterns: Array, slack: Array) -> SignTables:
    """Return the tables for `patterns` (m, r) of ±1 whose constraints may be disagreed with `slack` (m,) times, 0 to 127."""
    m, r = patterns.shape
    words, bits = max(1, -(-m // 8)), min(LAST, r)
    guarded = np.full(8 * words, 255, np.uint8)
    guarded[:m] = 128 + slack
    against = np.zeros((8 * words, r), np.uint8)
    against[:m] = patterns < 0  # penalty of +1; that of -1 is the opposite
    against, live = np.stack([1 - against, against]), np.arange(8 * words) < m  # by choice: 0 is -1
    against[:, ~live] = 0
    upper = r - bits
    ends = [*range(upper, 0, -BLOCK), 0][::-1]
    penalties = np.full((len(ends) - 1, 32, 8 * words), 0x80, np.uint8)
    for block, (first, last) in enumerate(pairwise(ends)):
        codes = np.arange(1 << (last - first))
        own = sum(against[codes >> i & 1, :, first + i] for i in range(last - first))
        penalties[block, : len(codes)] = own
    codes = np.arange(1 << bits)
    lost = sum(
        (against[codes >> i & 1, :, upper + i].astype(int) for i in range(bits)), np.zeros((len(codes), 8 * words))
    )
    allowed = lost.T[:, None, :] <= np.arange(128)[:, None]  # (rows, slack, codes)
    sets = np.zeros((8 * words, 256), np.uint64)
    sets[:, 128:] = (allowed.astype(np.uint64) << codes.astype(np.uint64)).sum(axis=2, dtype=np.uint64)
    packed = np.ascontiguousarray(penalties.reshape(-1, 8 * words)).view("<u8").reshape(len(ends) - 1, 32, words)
    packed = np.ascontiguousarray(packed.transpose(0, 2, 1).astype(np.uint64))
    return SignTables(packed, sets, guarded.view("<u8").astype(np.uint64), bits)


@njit(**FAST)
def expanded(slacks, penalties):
    """Return the slacks (k', words) of all choices of one block, of 32 codes, that leave none negative."""
    k, words = slacks.shape
    found = np.empty((32 * k, words), np.uint64)
    count = 0
    for i in range(k):
        for code in range(32):
            good = GUARD
            for w in range(words):
                found[count, w] = slacks[i, w] - penalties[w, code]
                good &= found[count, w]
            count += good == GUARD
    return found[:count].copy()


@njit(inline="always", **FAST)
def _candidates(slack, penalties, good, codes):
    """Fill `codes` with those of a block that leave no slack negative; return their number."""
    for code in range(32):
        good[code] = slack[0] - penalties[0, code]
    for w in range(1, slack.size):
        own = slack[w]
        for code in range(32):
            good[code] &= own - penalties[w, code]
    count = 0
    for code in range(32):
        codes[count] = code
        count += (good[code] & GUARD) == GUARD
    return count


@njit(inline="always", **FAST)
def _population(x):
    x = x - ((x >> np.uint64(1)) & np.uint64(0x5555555555555555))
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(inline="always", **FAST)
def _surviving(slack, penalties, code, sets, full):
    """Return how many of the last weights' choices meet every constraint."""
    left = full
    for w in range(slack.size):
        word = slack[w] if code < 0 else slack[w] - penalties[w, code]
        for byte in range(8):
            left &= sets[8 * w + byte, word & _byte]
            word >>= np.uint64(8)
        if left == np.uint64(0):
            return 0
    return _population(left)


@njit(**FAST)
def signs(slacks, first, penalties, sets, bits):
    """Return how many choices of the blocks from `first` on and of the last weights meet every constraint.

    `slacks` (k, words) are those after the choices before.
    """
    blocks, words = penalties.shape[0], slacks.shape[1]
    full = ~np.uint64(0) if bits == 6 else (_one << np.uint64(1 << bits)) - _one
    own = np.empty((blocks + 1, words), np.uint64)
    codes, count, place = (
        np.empty((blocks + 1, 40), np.int64),
        np.zeros(blocks + 1, np.int64),
        np.zeros(blocks + 1, np.int64),
    )
    good = np.empty(32, np.uint64)
    total = 0
    for start in range(slacks.shape[0]):
        for w in range(words):
            own[first, w] = slacks[start, w]
        if first == blocks:
            total += _surviving(own[first], penalties[0], -1, sets, full)
            continue
        level, place[first] = first, 0
        count[first] = _candidates(own[first], penalties[first], good, codes[first])
        while level >= first:
            if level == blocks - 1:
                for j in range(count[level]):
                    total += _surviving(own[level], penalties[level], codes[level, j], sets, full)
                level -= 1
                continue
            if place[level] == count[level]:
                level -= 1
                continue
            code = codes[level, place[level]]
            place[level] += 1
            for w in range(words):
                own[level + 1, w] = own[level, w] - penalties[level, w, code]
            level += 1
            place[level] = 0
            count[level] = _candidates(own[level], penalties[level], good, codes[level])
    return total


@njit(**FAST)
def descend(penalties, doubt, slacks, choice, state, found, everything):
    """Search on from `choice` (r,) and `state` (depth, certain, nodes) until `found` (k, r) is full; return how many are there.

    `penalties` (r, levels, m) and `slacks` (r + 1, m), the first of which is set, may be off by `doubt` (m,): a choice that
    meets every constraint beyond doubt is counted, and others that may are put into `found`, as all are with `everything`.
    """
    r, levels, m = penalties.shape
    depth, rows = state[0], 0
    while depth >= 0:
        level = choice[depth]
        if level == levels:
            choice[depth] = 0
            depth -= 1
            continue
        choice[depth] = level + 1
        before, after, own = slacks[depth], slacks[depth + 1], penalties[depth, level]
        lost = False
        for i in range(m):
            rest = before[i] - own[i]
            after[i] = rest
            lost |= rest < -doubt[i]
        state[2] += 1
        if lost:
            continue
        if depth < r - 1:
            depth += 1
            continue
        certain = not everything
        for i in range(m):
            certain &= after[i] >= doubt[i]
        if certain:
            state[1] += 1
            continue
        for i in range(r):
            found[rows, i] = choice[i] - 1
        rows += 1
        if rows == found.shape[0]:
            break
    state[0] = depth
    return rows


@njit(**FAST)
def heat_bath(weights, place, patterns, table, draws):
    """Flip weights (k, n) of ±1 in turn by the heat bath, a `draws` (k, sweeps n) each.

    `place` (k, m) are the numbers of the constraints' sums, whose log weights are `table`; `patterns` are (n, m) of ±1.
    """
    n, m = patterns.shape
    for k in range(weights.shape[0]):
        own, signs_of = place[k], weights[k]
        for j in range(draws.shape[1]):
            i = j % n
            w, gain = signs_of[i], 0.0
            row = patterns[i]
            for mu in range(m):
                p = own[mu]
                gain += table[p - w * row[mu]] - table[p]
            if gain > 80.0 or draws[k, j] * (1.0 + np.exp(-gain)) < 1.0:
                signs_of[i] = -w
                for mu in range(m):
                    own[mu] -= w * row[mu]
