"""Chains against enumerated posteriors: every prior and likelihood, with intercepts, clamped and sample weights.

Independent chains, one draw each, and one threshold, which planted bugs must not pass.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chi2, chi2_contingency

import solspace as ss
from solspace.samplers.registry import SAMPLERS

PRIORS = ["binary", "ternary", "ternary(0.2)", "levels(-3,-1,1,3)", "levels(0,0.5,2)"]
POTENTIALS = [
    ("logistic(2)", 1.0, 0.3), ("probit(0.5)", 1.0, -0.2), ("flip(0.1)", 1.0, 0.1), ("tau(0.4)", 0.6, 0.2),
    ("log", 0.5, -0.3), ("uniform", 1.0, -0.2),
]  # fmt: skip
LIMIT = 1e-5  # p-value
CHAINS = 5000
X = np.random.default_rng(0).normal(size=(6, 5))
Y = np.array([1, -1, 1, 1, -1, 1])


def counts(samples, law):
    digits = np.searchsorted(law.levels.array, samples.weights)
    return np.bincount(digits @ len(law.levels.values) ** np.arange(law.n), minlength=len(law.probabilities))


def p_value(samples, law):
    """Return that of the draws' counts, cells of fewer than 5 expected draws pooled, and of the mean of the intercepts."""
    expected, seen = law.probabilities * len(samples), counts(samples, law)
    small = expected < 5
    seen, awaited = (np.append(part[~small], part[small].sum()) for part in (seen, expected))
    awaited[-1] = max(awaited[-1], 1e-9)
    chi, freedom = ((seen - awaited) ** 2 / awaited).sum(), len(seen) - 1
    if samples.intercepts is not None:
        means = law.probabilities @ np.stack([law.intercept_means, law.intercept_squares], axis=1)
        spread = means[1] - means[0] ** 2
        chi, freedom = chi + len(samples) * (samples.intercepts.mean() - means[0]) ** 2 / spread, freedom + 1
        squares = samples.intercepts**2
        chi, freedom = chi + len(samples) * (squares.mean() - means[1]) ** 2 / squares.var(), freedom + 1
    return chi2.sf(chi, freedom)


def annealed(problem, sweeps=30, target=None):
    """Return the draws of chains that stay at the target, after the default schedule where it is hard."""
    target = problem.target if target is None else target
    if target.potential.hard:
        more = {"n_extra": sweeps, "thin": sweeps}
        return ss.anneal(problem.with_target(target), n_chains=CHAINS, n_sweeps=sweeps, **more, rng=11)
    return ss.anneal(problem, n_chains=CHAINS, schedule=[target] * sweeps, rng=11)


@pytest.mark.parametrize(("potential", "temperature", "margin"), POTENTIALS)
@pytest.mark.parametrize("prior", PRIORS)
def test_every_prior_and_likelihood(prior, potential, temperature, margin):
    """Real-valued patterns and labels; hard constraints so many that chains still reach all solutions."""
    rows = 2 if potential in ("log", "uniform") else 6
    problem = ss.Perceptron(X[:rows], Y[:rows], target=ss.Target(prior, potential, temperature, margin))
    assert p_value(annealed(problem), problem.enumerate()) > LIMIT


@pytest.mark.parametrize(("potential", "temperature", "margin"), POTENTIALS[:4])
@pytest.mark.parametrize("prior", ["binary", "ternary"])
def test_patterns_of_one_sign_or_the_other(prior, potential, temperature, margin):
    """±1 weights take the integer kernel, at margins other than 0; few constraints, at which chains mix."""
    problem = ss.Perceptron(np.sign(X[:3]), Y[:3], target=ss.Target(prior, potential, temperature, margin))
    assert p_value(annealed(problem), problem.enumerate()) > LIMIT


def test_exact_samples_have_intercepts():
    problem = ss.Perceptron(X, Y, target=ss.Target("ternary", "flip(0.2)"), intercept=1.5)
    assert p_value(SAMPLERS["exact"].draw(problem, 2000, rng=1), problem.enumerate()) > LIMIT


EXTRAS = [
    {"intercept": 1.5},
    {"sample_weight": [0.5, 1, 2, 1, 0.3, 1]},
    {"clamped": {1: 1, 3: -1}},
    {"intercept": 0.7, "sample_weight": [0.5, 1, 2, 1, 0.3, 1], "clamped": {0: 1}},
]


@pytest.mark.parametrize("extras", EXTRAS, ids=lambda extras: "+".join(extras))
@pytest.mark.parametrize("potential", ["logistic(2)", "log"])
@pytest.mark.parametrize("prior", ["binary", "ternary(0.4)"])
def test_intercepts_clamped_and_sample_weights(prior, potential, extras):
    target = ss.Target(prior, potential, margin=-1.0 if potential == "log" else 0.2)
    problem = ss.Perceptron(X, Y, target=target, **extras)
    if potential == "log":  # few constraints, which all chains meet
        few = {**extras, **({"sample_weight": extras["sample_weight"][:2]} if "sample_weight" in extras else {})}
        problem = ss.Perceptron(X[:2], Y[:2], target=target, **few)
    assert p_value(annealed(problem, 60), problem.enumerate()) > LIMIT


def bugs():
    """Yield name, problem, and what chains with a bug would sample in its place."""
    target = ss.Target("ternary(0.2)", "logistic(3)")
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(20, 5)), rng.choice([-1, 1], 20)
    problem = ss.Perceptron(x, y, target=target, intercept=1.5)
    law = problem.enumerate()
    wide = ss.Perceptron(x[:2], y[:2], target=target, intercept=1.5)
    narrow = ss.Perceptron(x[:2], y[:2], target=target, intercept=1.5 / np.sqrt(2))
    yield "nothing", law, problem
    yield "prior of the intercept", wide.enumerate(), narrow
    yield "temperature", law, problem.with_target(target.replace(temperature=1.1))
    yield "labels", law, ss.Perceptron(x, target=target, intercept=1.5)
    yield "probabilities", law, problem.with_target(target.replace(prior="ternary"))
    yield "margin", law, problem.with_target(target.replace(margin=-0.1))


def test_planted_bugs_are_found():
    for name, law, planted in bugs():
        p = p_value(annealed(planted, 40), law)
        assert (p > LIMIT) == (name == "nothing"), (name, p)


def test_four_levels_are_two_binary_weights():
    """Levels -3, -1, 1, 3 on x have the law of 2a + b, (a, b) = ±1 weights on (2x, x)."""
    target = ss.Target("levels(-3,-1,1,3)", "logistic(1)", margin=0.2)
    one = ss.Perceptron(X[:, :3], Y, target=target)
    two = ss.Perceptron(np.hstack([2 * X[:, :3], X[:, :3]]) * np.sqrt(2), Y, target=target.replace(prior="binary"))
    levels, signs = annealed(one, 60), annealed(two, 60)
    signs.weights = 2 * signs.weights[:, :3] + signs.weights[:, 3:]
    law = one.enumerate()
    table = np.stack([counts(levels, law), counts(signs, law)])
    common = table.sum(axis=0) >= 10
    assert chi2_contingency(np.column_stack([table[:, common], table[:, ~common].sum(axis=1)])).pvalue > LIMIT
    assert p_value(levels, law) > LIMIT


@pytest.mark.parametrize("extras", [{}, {"intercept": 1.0}], ids=["weights", "intercept"])
def test_exchanged_replicas_follow_the_law(extras):
    problem = ss.Perceptron(X, Y, target=ss.Target("ternary", "logistic(3)"), **extras)
    samples = ss.anneal(problem, n_chains=1500, n_sweeps=30, n_extra=20, thin=20, exchange=True, n_rungs=3, rng=3)
    assert p_value(samples, problem.enumerate()) > LIMIT
    assert samples.info.swap_acceptance.min() > 0.1


@pytest.mark.parametrize(("temperature", "fair"), [(1.0, True), (1.5, False)])
def test_posteriors_of_teachers_agree_with_theory(temperature, fair):
    """Overlap of two samples, and of sample and teacher, logistic(3), alpha = 1: 0.3919592 by replica theory.

    Over six instances the means scatter by 0.004 and 0.007.
    """
    target, found = ss.Target(potential="logistic(3)"), []
    for seed in range(6):
        problem = ss.Perceptron.planted(n=1001, alpha=1.0, target=target, rng=seed)
        hot = problem.with_target(target.replace(temperature=temperature))
        samples = ss.anneal(hot, n_chains=6, n_sweeps=60, n_extra=40, thin=20, rng=seed)
        found.append([samples.chain_overlaps().mean(), (samples.weights @ problem.teacher.astype(float)).mean() / 1001])
    off = np.abs(np.mean(found, axis=0) - 0.3919592)
    assert (off < [0.02, 0.035]).all() == fair
