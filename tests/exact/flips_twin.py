"""Annealed Metropolis as its definition says, in NumPy: the twin that compiled chains must equal bit for bit.

Nothing is cached and nothing is packed: a proposal sums the integer energies of all constraints before and after. Only
the random numbers and the integer energies are those of the package, written out again from their definitions.
"""

from __future__ import annotations

import numpy as np

from solspace.samplers.annealing.cpu import Lattice, landscapes
from solspace.samplers.annealing.real_forms import FixedPoint, forms, is_power, reach_of

LOW = np.uint64(0xFFFFFFFF)


def philox(block, sweep, chain, stream, key):
    """Return the four words of Philox4x32-10, vectorised over `block`."""
    a = np.asarray(block, np.uint64)
    b, c, d = (np.full_like(a, value) for value in (sweep, chain, stream))
    k, l = int(key) & 0xFFFFFFFF, int(key) >> 32  # noqa: E741
    for _ in range(10):
        p, q = np.uint64(0xD2511F53) * a, np.uint64(0xCD9E8D57) * c
        a, b = (q >> np.uint64(32)) ^ b ^ np.uint64(k), q & LOW
        c, d = (p >> np.uint64(32)) ^ d ^ np.uint64(l), p & LOW
        k, l = (k + 0x9E3779B9) & 0xFFFFFFFF, (l + 0xBB67AE85) & 0xFFFFFFFF  # noqa: E741
    return a, b, c, d


def thresholds(key, chain, sweep, n, kt, bath):
    """Return floor(-log(u) kt), or the heat bath's floor(log((1 - u)/u) kt), for the n proposals of a sweep."""
    a, b, c, d = philox(np.arange((n + 1) // 2), sweep, chain, 0, key)
    raw = np.stack([b << np.uint64(32) | a, d << np.uint64(32) | c], axis=1).ravel()[:n]
    u = (raw >> np.uint64(12)).astype(float) / 2.0**52 + 2.0**-53
    levels = (np.log1p(-u) - np.log(u)) * max(kt, 1e-300) if bath else -np.log(u) * kt
    return np.floor(levels).astype(np.int64)


def order(key, sweep, n):
    """Return the order of the sites in a sweep."""
    draws = np.stack(philox(np.arange((n + 3) // 4), sweep, 0, 1, key), axis=1).ravel()
    sites = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = int(draws[i]) * (i + 1) >> 32
        sites[i], sites[j] = sites[j], sites[i]
    return sites


def first_weights(key, chain, n):
    """Return the weights a chain starts from."""
    words = np.stack(philox(np.arange((n + 127) // 128), 0, chain, 2, key), axis=1).ravel().astype(np.uint32)
    return 2 * np.unpackbits(words.view(np.uint8), bitorder="little")[:n].astype(np.int64) - 1


def run(problem, plan, key, n_chains):
    """Return (weights, accepted, energy, solved_at) of `n_chains` chains through `plan`."""
    model = (Levels if problem.has_binary_patterns else Fixed)(problem, plan)
    n, sweeps = problem.n, len(plan)
    weights = np.stack([first_weights(key, chain, n) for chain in range(n_chains)])
    accepted, energies = np.zeros((n_chains, sweeps), int), np.full((n_chains, sweeps), np.nan)
    solved_at = np.full(n_chains, -1)
    bath = plan.heat_bath(slice(0, sweeps))
    for chain, w in enumerate(weights):
        for t in range(sweeps):
            products = model.columns @ w
            sites, bars = order(key, t, n), thresholds(key, chain, t, n, model.kt(t), bath[t])
            for site, bar in zip(sites, bars):
                if plan.solve and model.met(products):
                    break
                after = products - 2 * w[site] * model.columns[:, site]
                if model.energy(after, t) - model.energy(products, t) <= bar:
                    products, w[site] = after, -w[site]
                    accepted[chain, t] += 1
            energies[chain, t] = model.value(products, t)
            if model.met(products):
                solved_at[chain] = t if solved_at[chain] < 0 else solved_at[chain]
                if plan.solve:
                    break
    return weights, accepted, energies, solved_at


class Levels:
    """Integer energies on the lattice of ±1 patterns."""

    def __init__(self, problem, plan):
        self.m, self.columns = problem.m, problem.patterns.astype(np.int64)
        self.lattice = Lattice(problem.n, problem.m)
        self.table = landscapes(plan.stages, self.lattice)
        self.allowed = self.lattice.met_range(plan.target)

    def kt(self, t):
        return self.table.kt[t]

    def levels(self, products):
        return (products + self.lattice.n) // 2 + 1 - self.lattice.base

    def energy(self, products, t):
        return int(self.table.energies[t, self.levels(products)].sum(dtype=np.int64))

    def value(self, products, t):
        return self.energy(products, t) * self.table.unit[t] + self.m * self.table.floor[t]

    def met(self, products):
        first, width = self.allowed
        levels = self.levels(products)
        return bool(((levels >= first) & (levels < first + width)).all())


class Fixed:
    """Integer energies of fixed-point stabilities, by the formulas of `kernels.energies`."""

    def __init__(self, problem, plan):
        fixed = FixedPoint(problem, reach_of(plan.stages))
        self.power = all(is_power(stage) for stage in plan.stages)
        self.columns = fixed.columns[:, : problem.m].T.astype(np.int64) // 2
        self.made = forms(plan.stages, [fixed], self.power).of(0)
        self.allowed = fixed.met_range(plan.target)

    def kt(self, t):
        return self.made.kt[t]

    def value(self, products, t):
        return self.energy(products, t) * self.made.unit[t]

    def met(self, products):
        return bool((products >= self.allowed[0]).all() and (products <= self.allowed[1]).all())

    def energy(self, products, t):
        places = products - self.made.margins[t]
        rule = _power if self.power else _cell
        return int(rule(places, self.made.forms[t], self.made.marks[t]).sum())


def fma(x, y, z):
    """Return x y + z of float32 numbers, rounded once (long double holds the product exactly)."""
    return (np.longdouble(x) * np.longdouble(y) + np.longdouble(z)).astype(np.float32)


def _power(t, form, marks):
    value = t.astype(np.float32)
    mantissa, exponent = np.frexp(value)
    z, e = np.abs(2 * mantissa), (exponent - 1 + 127) % 32
    h = np.full(len(t), form[64])
    for power in range(1, 7):
        h = fma(h, z, form[64 + power])
    right, left = fma(form[e], h, form[32 + e]), fma(value, form[72], form[71])
    return np.trunc(np.where(t < marks[0], left, right)).astype(np.int64)


def _cell(t, form, marks):
    side, none = 31 * 128, np.float32(0)
    t = marks[6] - np.abs(t) if marks[6] > 0 else t
    inside = np.clip(t, marks[0], marks[1])
    bits = np.abs(inside).astype(np.float32).view(np.uint32).astype(np.int64)
    cell = np.maximum((bits >> 16) - 127 * 128, 0) + np.where(inside < 0, side, 0)
    energy = fma((bits & 0xFFFF).astype(np.float32), form[2 * side + cell], form[cell])
    energy = np.where(inside == 0, form[4 * side], energy)
    for k in range(4):
        energy = energy + np.where(inside >= marks[2 + k], form[4 * side + 3 + k], none)
    out = np.abs(t - inside)
    wall = fma(out.astype(np.float32), form[4 * side + 2], form[4 * side + 1])
    return np.trunc(energy + np.where(out == 0, none, wall)).astype(np.int64)
