"""The posterior of weights on a few levels, given a table.

    logit t = a ⟨x, w⟩/√n + b,   log a ~ N(1 - log rms v, 1),   b ~ N(0, 5²),   w on levels v, their frequencies ~ Dirichlet(1)

Columns are standardised and clipped at ±4. Chains (`samplers.kernels.logistic`) are annealed from the prior, which gives the
evidence on the way, and probabilities are averages over all samples. On separable tables averages are too timid: they are
calibrated (Platt) on predictions for rows left out, by importance weights 1/P(y|w) where rows are many, else by five folds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp

from solspace.numerics.arrays import Array
from solspace.numerics.streams import child

DENSER, LARGEST_FORM = 3, 700  # rows for each column, and most variables, of a quadratic form
CLIP = 4.0  # largest standardised value
KEPT = 30  # samples kept of a chain
BURN = 0.4  # share of the sweeps in which a chain is annealed
WORK = 1e7  # rows times proposals of a chain by default
WIDTH = 5.0  # of the intercept's prior
BLOCK = 1 << 22  # logits in memory at a time
SURE = 1e-6  # averages are kept this far from 0
FOLDS = 5
FLATTEST = 0.05  # least slope of a calibration
RIDGE = 0.3  # precision of the prior of the calibration's slope, about 1


@dataclass(frozen=True)
class Standardiser:
    """Columns to mean 0 and variance 1, clipped; constant columns are dropped."""

    mean: Array
    width: Array
    used: Array

    @classmethod
    def learn(cls, X: Array, s: Array) -> Standardiser:
        """Return the standardiser of X (m, n) with row weights s (m,)."""
        size = np.abs(X).max(axis=0)
        unit = np.where(size > 0, size, 1.0)  # squares of large values overflow otherwise
        share = s / s.sum()
        mean = share @ (X / unit)
        width = np.sqrt(share @ (X / unit - mean) ** 2)
        used = width > 1e-7
        return cls((mean * unit)[used], (width * unit)[used], used)

    def __call__(self, X: Array) -> Array:
        """Return the used columns of X (k, n), standardised."""
        return np.clip((X[:, self.used] - self.mean) / self.width, -CLIP, CLIP)


def merge(X: Array, codes: Array, s: Array) -> tuple[Array, Array, Array]:
    """Return the different rows, their labels and their total weights, in one order for all orders of the table.

    >>> merge(np.array([[2.0], [3.0], [2.0]]), np.array([0, 1, 0]), np.ones(3))[2].tolist()
    [2.0, 1.0]
    """
    both = np.column_stack([X[s > 0] + 0.0, codes[s > 0]])  # -0.0 + 0.0 is 0.0: equal rows have equal bytes
    keys = both.view(np.dtype((np.void, both.itemsize * both.shape[1])))[:, 0]
    _, first, place = np.unique(keys, return_index=True, return_inverse=True)
    return both[first, :-1], codes[s > 0][first], np.bincount(place, s[s > 0])


class Draws(NamedTuple):
    """Samples of several chains: weights (k, c, n) int8, scales and intercepts (k, c); importance of the chains (logarithms).

    c is the number of classes; of two classes the second one has weights, c is 1.
    """

    weights: Array
    scales: Array
    intercepts: Array
    importance: Array

    @classmethod
    def joined(cls, parts: Sequence[Draws]) -> Draws:
        return cls(*map(np.concatenate, zip(*parts)))

    @property
    def evidence(self) -> float:
        """Log of the probability of the labels, by annealed importance sampling."""
        return float(logsumexp(self.importance) - np.log(len(self.importance)))

    def blocks(self, rows: Array) -> Iterator[tuple[slice, Array]]:
        """Yield log-probabilities (rows, k, classes) for some standardised rows (m, n) at a time."""
        k, c, n = self.weights.shape
        factors = (self.weights * (self.scales / np.sqrt(max(1, n)))[:, :, None]).reshape(k * c, n).T
        step = max(1, BLOCK // (k * c))
        for i in range(0, len(rows), step):
            part = slice(i, i + step)
            t = (rows[part] @ factors + self.intercepts.ravel()).reshape(-1, k, c)
            if c == 1:
                yield part, np.concatenate([log_expit(-t), log_expit(t)], axis=2)
            else:
                yield part, log_softmax(t, axis=2)

    def probabilities(self, rows: Array) -> Array:
        """Return the means over the samples, (m, classes)."""
        return np.concatenate([np.exp(logs).mean(axis=1) for _, logs in self.blocks(rows)])

    def left_out(self, table: Table) -> Array:
        """Return the probabilities (m, classes) of training rows, each without itself, by truncated importance weights."""
        result = []
        for part, logs in self.blocks(table.rows):
            loss = -np.take_along_axis(logs, table.codes[part, None, None], axis=2) * np.minimum(
                table.s[part, None, None], 1
            )
            loss -= logsumexp(loss, axis=1, keepdims=True)
            weight = np.exp(np.minimum(loss, -0.5 * np.log(logs.shape[1])))
            result.append((weight * np.exp(logs)).sum(axis=1) / weight.sum(axis=1))
        return np.concatenate(result)

    def spread(self, rows: Array) -> float:
        """Return the standard error of the probabilities, root mean square over rows, from chain to chain."""
        chains = len(self.importance)
        means = [
            np.exp(logs).reshape(len(logs), chains, -1, logs.shape[2]).mean(axis=2) for _, logs in self.blocks(rows)
        ]
        return float(np.sqrt(np.concatenate(means).var(axis=1, ddof=1).mean() / chains)) if chains > 1 else 0.0


@dataclass(frozen=True)
class Table:
    """Standardised rows (m, n) with weights s (m,), and the numbers of their classes (m,), of which there are `classes`."""

    rows: Array
    s: Array
    codes: Array
    classes: int

    @property
    def goal(self) -> Array:
        """(m, classes), 1 at the class of a row."""
        return (self.codes[:, None] == np.arange(self.classes)).astype(float)

    def score(self, p: Array) -> float:
        """Return the log-likelihood of probabilities (m, classes)."""
        return float(self.s @ np.take_along_axis(sure_log(p), self.codes[:, None], axis=1)[:, 0])

    def where(self, chosen: Array) -> Table:
        return Table(self.rows[chosen], self.s[chosen], self.codes[chosen], self.classes)


class Columns(NamedTuple):
    """A table as kernels take it: columns (n, size) over √n, row weights (size,), and Σ s p x (c, n) and Σ s p (c,).

    `form` and `pull` are the quadratic form that imitates the likelihood; empty where it would not, or would be too large.
    """

    x: Array
    s: Array
    linear: Array
    totals: Array
    form: Array
    pull: Array

    @classmethod
    def of(cls, rows: Array, s: Array, goal: Array) -> Columns:
        """Return the columns of rows (m, n) with weights (m,) and probabilities of the classes (m, classes)."""
        from solspace.samplers.kernels.logistic import LANES

        m, n = rows.shape
        x, weights = np.zeros((n, -(-m // LANES) * LANES), np.float32), np.zeros(-(-m // LANES) * LANES, np.float32)
        x[:, :m], weights[:m] = rows.T / np.sqrt(max(1, n)), s
        share = s[:, None] * (goal[:, 1:] if goal.shape[1] == 2 else goal)
        linear, totals = (x[:, :m].astype(float) @ share).T.copy(), share.sum(axis=0)
        wanted = m >= DENSER * n and share.shape[1] * (n + 1) <= LARGEST_FORM
        form, pull = quadratic_form(rows, s, goal) if wanted else (np.empty((0, 0)), np.empty(0))
        return cls(x, weights, linear, totals, form, pull)


def quadratic_form(rows: Array, s: Array, goal: Array) -> tuple[Array, Array]:
    """Return (H, h) of the log-likelihood h φ - φ H φ/2 about its maximum with a ridge.

    φ holds n coefficients and the intercept of each class, of the second one for two classes.
    """
    x = np.column_stack([rows, np.ones(len(rows))])
    c, n = (1 if goal.shape[1] == 2 else goal.shape[1]), x.shape[1]
    ridge = np.append(np.full(n - 1, (n - 1) / np.exp(2.0)), 1 / WIDTH**2)
    phi, ridge = np.zeros((c, n)), np.tile(ridge, c)

    def moments(phi: Array) -> tuple[float, Array]:
        t = x @ phi.T
        logs = log_softmax(np.column_stack([np.zeros(len(t)), t]) if c == 1 else t, axis=1)
        return float(ridge @ phi.ravel() ** 2 / 2 - s @ (goal * logs).sum(axis=1)), np.exp(logs[:, -c:])

    loss, q = moments(phi)
    for _ in range(15):
        pull = ((s[:, None] * (goal[:, -c:] - q)).T @ x).ravel()
        form = np.empty((c, n, c, n))
        for k in range(c):
            for l in range(k, c):  # noqa: E741
                form[k, :, l] = form[l, :, k] = (x.T * (s * q[:, k] * ((k == l) - q[:, l]))) @ x
        matrix = form.reshape(c * n, c * n)
        step = np.linalg.solve(matrix + np.diag(ridge), pull - ridge * phi.ravel()).reshape(c, n)
        if np.abs(step).max() < 1e-3:
            break
        while (found := moments(phi + step))[0] > loss and np.abs(step).max() > 1e-6:
            step /= 2
        phi, (loss, q) = phi + step, found
    return matrix, pull + matrix @ phi.ravel()


def sweeps_for(columns: Columns, tables: int) -> int:
    """Return the sweeps of a chain if there are as many `tables`: as work allows, and more for more weights without a form."""
    c, n = columns.linear.shape
    cost = len(columns.s) * max(1, n) * c * tables
    if len(columns.pull):
        return int(np.clip(WORK / cost, 150, 500))
    return int(np.clip(40 * WORK / cost, 300, max(500, 3 * n)))


def draw(table: Columns, values: Array, seed: np.random.SeedSequence, n_sweeps: int) -> Draws:
    """Run a chain for weights on the levels `values`."""
    from solspace.samplers.kernels.logistic import run_chain

    burn = max(1, int(BURN * n_sweeps))
    stride = max(1, (n_sweeps - burn) // KEPT)
    keep = max(1, (n_sweeps - burn) // stride)
    betas = (np.arange(1, burn + 1) / burn) ** 4.0
    prior = np.array([1 - np.log(np.mean(values**2)) / 2, 1.0, WIDTH])
    key, c = seed.generate_state(1, np.uint64)[0], len(table.totals)
    kept, scales, shifts = np.empty((keep, *table.linear.shape), np.int64), np.empty((keep, c)), np.empty((keep, c))
    importance = run_chain(key, *table, values.astype(np.float32), prior, betas, stride, kept, scales, shifts)
    return Draws(values.astype(np.int8)[kept], scales, shifts, np.array([importance]))


def folded(table: Table, values: Array, seeds: np.random.SeedSequence, n_sweeps: int) -> Array:
    """Return the probabilities (m, classes) of rows, each from a chain on four fifths of the table without it."""
    result, fold = np.empty((len(table.s), table.classes)), np.empty(len(table.s), np.int64)
    order = np.random.default_rng(child(seeds, 0)).permutation(len(fold))
    order = order[np.argsort(table.codes[order], kind="stable")]  # as many of a class in every fold
    fold[order] = np.arange(len(fold)) % FOLDS
    for number in range(min(FOLDS, len(fold))):
        rest, out = table.where(fold != number), table.where(fold == number)
        draws = draw(Columns.of(rest.rows, rest.s, rest.goal), values, child(seeds, 1, number), n_sweeps)
        result[fold == number] = draws.probabilities(out.rows)
    return result


class Affine(NamedTuple):
    """Logits slope · x + offsets (c,)."""

    slope: float
    offsets: Array

    def __call__(self, x: Array) -> Array:
        return self.slope * x + self.offsets

    @classmethod
    def fitted(cls, x: Array, goal: Array, s: Array, ridge: float = RIDGE) -> Affine:
        """Return the maximum of the likelihood for x (m, c), probabilities `goal` (m, c) and weights s (m,).

        Slope and offsets have a Gaussian prior about 1 and 0, of precision `ridge`. The slope is at least FLATTEST: without any
        signal predictions for rows left out are worse than none.

        >>> p = np.tile([[0.4, 0.6], [0.6, 0.4]], (50, 1))
        >>> Affine.fitted(np.log(p), np.tile([[0.0, 1.0], [1.0, 0.0]], (50, 1)), np.ones(100)).slope > 2
        True
        """
        theta = _newton(x, goal, s, ridge, np.append(1.0, np.zeros(x.shape[1])), slice(None))
        if not theta[0] > FLATTEST:
            theta = _newton(x, goal, s, ridge, np.append(FLATTEST, np.zeros(x.shape[1])), slice(1, None))
        return cls(float(theta[0]), theta[1:])


def _newton(x: Array, goal: Array, s: Array, ridge: float, theta: Array, free: slice) -> Array:
    """Minimise the loss of `Affine.fitted` over slope and offsets theta[free]."""
    c, centre = x.shape[1], np.append(1.0, np.zeros(x.shape[1]))

    def loss(theta: Array) -> float:
        logs = log_softmax(theta[0] * x + theta[1:], axis=1)
        return float(ridge * ((theta - centre) ** 2).sum() / 2 - s @ (goal * logs).sum(axis=1))

    here = loss(theta)
    for _ in range(50):
        q = np.exp(log_softmax(theta[0] * x + theta[1:], axis=1))
        mean, pull = (q * x).sum(axis=1), s[:, None] * (q - goal)
        gradient = np.append((pull * x).sum(), pull.sum(axis=0)) + ridge * (theta - centre)
        hessian = (ridge + 1e-9 * s.sum()) * np.eye(c + 1)
        hessian[0, 0] += s @ ((q * x * x).sum(axis=1) - mean**2)
        bent = (s[:, None] * q * (x - mean[:, None])).sum(axis=0)
        hessian[0, 1:] += bent
        hessian[1:, 0] += bent
        hessian[1:, 1:] += np.diag(s @ q) - (s[:, None] * q).T @ q
        step = np.zeros(c + 1)
        step[free] = np.linalg.solve(hessian[free, free], gradient[free])
        while (found := loss(theta - step)) > here and np.abs(step).max() > 1e-9:
            step /= 2
        if np.abs(step).max() < 1e-7:
            break
        theta, here = theta - step, found
    return theta


def sure_log(p: Array) -> Array:
    """Return log p of probabilities (m, c) kept SURE away from 0."""
    return np.log(np.maximum(p, SURE))
