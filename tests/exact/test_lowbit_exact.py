"""The classifier's chains against enumeration of all weights and quadrature over scale and intercept."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from scipy.special import gammaln, log_expit, log_softmax, logsumexp

from solspace.learn import posterior
from solspace.learn.posterior import Columns, Draws, Table, draw
from solspace.samplers.kernels import logistic

N, M, UNSEEN, CHAINS, SWEEPS = 3, 14, 4, 40, 600
LIMIT = 4.0  # standard errors, of about 50 numbers


def table(classes: int) -> tuple[Table, np.ndarray]:
    rng = np.random.default_rng(3)
    rows = np.clip(rng.standard_normal((M, N)), -4, 4)
    scores = np.column_stack([rows @ np.array([1.0, 1, -1]) + 0.7, np.zeros(M), 1.2 * rows[:, 0]])[:, :classes]
    codes = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    s = np.where(np.arange(M) % 4 == 0, 2.0, 1.0)
    return Table(rows, s, codes if classes == 3 else 1 - codes, classes), rng.standard_normal((UNSEEN, N))


@cache
def exact(levels: tuple[float, ...]) -> tuple[float, np.ndarray, np.ndarray]:
    """Return log Z, P(+1) of unseen rows and P(w_j = v) of two classes."""
    (known, unseen), values = table(2), np.array(levels)
    places = np.array(list(itertools.product(range(len(values)), repeat=N)))
    counts = (places[:, :, None] == np.arange(len(values))).sum(axis=1)
    prior = gammaln(len(values)) - gammaln(len(values) + N) + gammaln(counts + 1).sum(axis=1)
    centre = 1 - np.log(np.mean(values**2)) / 2
    log_a, b = np.linspace(centre - 5, centre + 5, 61), np.linspace(-20, 20, 101)
    grid = -((log_a[:, None] - centre) ** 2) / 2 - (b / 5) ** 2 / 2
    grid += np.log((log_a[1] - log_a[0]) * (b[1] - b[0]) / (2 * np.pi * 5))

    def logits(rows: np.ndarray, place: np.ndarray) -> np.ndarray:
        return np.exp(log_a)[:, None, None] * (rows @ values[place] / np.sqrt(N)) + b[:, None]

    signs = 2 * known.codes - 1
    logs = np.array([p + grid + log_expit(signs * logits(known.rows, w)) @ known.s for w, p in zip(places, prior)])
    log_z = logsumexp(logs)
    share = np.exp(logs - log_z)
    p = sum((part[:, :, None] * np.exp(log_expit(logits(unseen, w)))).sum((0, 1)) for part, w in zip(share, places))
    chance = share.sum(axis=(1, 2))
    return (
        float(log_z),
        np.asarray(p),
        np.array([[chance[places[:, j] == k].sum() for k in range(len(values))] for j in range(N)]),
    )


def sampled(known: Table, values: np.ndarray, unseen: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return importance (chains,), P(+1) of unseen rows (chains, rows) and P(w_j = v) (chains, n, levels), by chain."""
    columns = Columns.of(known.rows, known.s, known.goal)
    parts = [draw(columns, values, np.random.SeedSequence([7, k]), SWEEPS) for k in range(CHAINS)]
    p = np.array([part.probabilities(unseen)[:, 1] for part in parts])
    shares = np.array([[[(part.weights[:, 0, j] == v).mean() for v in values] for j in range(N)] for part in parts])
    return np.array([part.importance[0] for part in parts]), p, shares


def deviations(known: Table, values: np.ndarray, unseen: np.ndarray) -> list[float]:
    """Return the largest deviations from the exact law in standard errors over chains: log Z, predictions, weights."""
    log_z, p, shares = exact(tuple(values))
    importance, p_chains, share_chains = sampled(known, values, unseen)

    def worst(chains: np.ndarray, truth: np.ndarray) -> float:
        error = chains.std(axis=0, ddof=1) / np.sqrt(CHAINS)
        return float((np.abs(chains.mean(axis=0) - truth) / (error + 1e-4)).max())

    return [worst(np.exp(importance - log_z)[:, None], np.ones(1)), worst(p_chains, p), worst(share_chains, shares)]


@pytest.mark.parametrize("values", [(-1.0, 0.0, 1.0), (0.0, 1.0, 3.0)], ids=str)
def test_chains_follow_the_posterior(values: tuple[float, ...]) -> None:
    known, unseen = table(2)
    assert max(deviations(known, np.array(values), unseen)) < LIMIT


@pytest.mark.parametrize("bug", ["no weights", "labels", "prior", "form"])
def test_planted_errors_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known, unseen = table(2)
    values, original = np.array([-1.0, 0.0, 1.0]), Columns.of

    def wrong(rows: np.ndarray, s: np.ndarray, goal: np.ndarray) -> Columns:
        columns = original(rows, np.minimum(s, 1) if bug == "no weights" else s, goal)
        if bug == "labels":
            return columns._replace(linear=0.8 * columns.linear)
        return columns

    if bug == "prior":
        monkeypatch.setattr(posterior, "WIDTH", 2.0)
    elif bug == "form":  # a proposal that does not know what it proposed

        def run_chain(*arguments: object) -> float:
            changed = list(arguments)
            changed[6] = changed[6] + np.linspace(0, 8, len(changed[6]))  # type: ignore[operator, arg-type]
            return original_chain(*changed)

        original_chain = logistic.run_chain
        monkeypatch.setattr(logistic, "run_chain", run_chain)
    else:
        monkeypatch.setattr(Columns, "of", staticmethod(wrong))
    found = max(deviations(known, values, unseen))
    assert found < LIMIT if bug == "form" else found > LIMIT  # a bad form costs acceptance, not the law


def test_three_classes_follow_the_posterior() -> None:
    """Importance sampling from the prior is the judge: its own error is counted in."""
    known, unseen = table(3)
    values, rng, size = np.array([-1.0, 0.0, 1.0]), np.random.default_rng(0), 60_000
    frequencies = rng.dirichlet(np.ones(3), (size, 3)).cumsum(axis=2)
    w = values[(rng.random((size, 3, N, 1)) > frequencies[:, :, None, :]).sum(axis=3)]
    a = np.exp(1 - np.log(2 / 3) / 2 + rng.standard_normal((size, 3)))
    b = 5 * rng.standard_normal((size, 3))
    t = np.einsum("mj,kcj->kmc", known.rows, w / np.sqrt(N)) * a[:, None] + b[:, None]
    logs = log_softmax(t, axis=2)[:, np.arange(M), known.codes] @ known.s
    weight = np.exp(logs - logs.max())
    unseen_p = np.exp(log_softmax(np.einsum("mj,kcj->kmc", unseen, w / np.sqrt(N)) * a[:, None] + b[:, None], axis=2))
    p = np.einsum("k,kmc->mc", weight, unseen_p) / weight.sum()
    log_z = logs.max() + np.log(weight.mean())
    columns = Columns.of(known.rows, known.s, known.goal)
    parts = [draw(columns, values, np.random.SeedSequence([5, k]), SWEEPS) for k in range(CHAINS)]
    chains = np.array([part.probabilities(unseen) for part in parts])
    error = np.hypot(chains.std(axis=0, ddof=1) / np.sqrt(CHAINS), np.sqrt((weight**2).sum()) / weight.sum())
    assert (np.abs(chains.mean(axis=0) - p) / error).max() < LIMIT
    assert abs(Draws.joined(parts).evidence - log_z) < 0.3


def test_the_sum_over_rows_is_right() -> None:
    rng = np.random.default_rng(0)
    for scale in (0.1, 3.0, 40.0):
        z, x, y, o = (scale * rng.standard_normal((4, 1024))).astype(np.float32)
        s = rng.random(1024).astype(np.float32)
        found = logistic.partition(z, o, s, 1.3, -0.2, x, 0.5, y, -0.25, np.empty(logistic.LANES, np.float32))
        t = 1.3 * (z.astype(float) + 0.5 * x - 0.25 * y) - 0.2 + o
        assert found == pytest.approx(float(s @ np.logaddexp(0, t)), rel=3e-6)
