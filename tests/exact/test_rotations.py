"""Rotations leave the law on a small sphere where it is, and reach exact, independent draws at a wall; planted bugs are found."""

from itertools import pairwise

import numpy as np
import pytest
from cone import exact_weights
from scipy.special import logsumexp

import solspace as ss
from solspace.measure.potentials import as_potential
from solspace.samplers.annealing.chains import Chains, Plan, Run, run_to_end
from solspace.samplers.annealing.rotations import Rotations
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels import densities

BINS = np.array([0.0, 0.0025, 0.005, 0.01, 0.02])
LIMIT = 4.5  # standard errors, of twenty numbers or so
SIGMAS = 3.0  # of the four bins and the smallest stability, against exact draws


class Ramp:
    """A potential of a user: soft, with a jump and a kink."""

    breakpoints = (0.0, 0.5)

    def log_weight(self, s):
        return -np.where(s < 0.5, 1.0 + 0.3 * (0.5 - s), 0.0) - 0.1 * s**2


class Barrier:
    """A potential of a user: hard on both sides, and not even."""

    breakpoints = (-1.0, 2.0)

    def log_weight(self, s):
        with np.errstate(all="ignore"):
            return np.where((s > -1) & (s < 2), np.log(s + 1) - np.cos(3 * s) + 2 * np.log(2 - s), -np.inf)


POTENTIALS = [
    *("uniform", "log", "hinge", "errors", "tau(1)", "tau(0.3)", "tau(0.00002)", "band(0.7)", "log_band(0.9)", "wall(-0.5)"),
    *("wall(upper=0.4)", "wall(-1,2)", "tau_wall(-1,1,0.5)", "tau_wall(upper=0.3,tau=0.2)", "log_quadratic(1.7,1.2)"),
    *("logistic(2)", "probit(0.3)", "flip(0.1)", Ramp(), Barrier()),
]  # fmt: skip


@pytest.mark.parametrize("heat", [0.0, 0.05, 0.5, 3.0, np.inf])
def test_log_weights(heat, rng):
    stages = [Stage(own, heat, 0.13) for own in map(as_potential, POTENTIALS) if heat > 0 or not own.hard]
    forms, room, none = densities.forms(stages), np.empty(densities.BLOCK), np.empty(0)
    near = rng.normal(size=200) * np.array([[1e-4], [1e-2], [1.0], [8.0]])
    points = np.concatenate([0.13 + edge + near.ravel() for edge in (-1.0, 0.0, 0.9)])
    one = np.ones(1)
    for t, stage in enumerate(stages):
        exact = -stage.energies(points)
        found = np.array([densities.shifted(forms, t, np.array([s]), none, one, 0.0, one.copy(), room) for s in points])
        assert np.array_equal(np.isneginf(found), np.isneginf(exact)), stage
        finite = np.isfinite(exact)
        error = np.abs(found[finite] - exact[finite])
        assert (error <= densities.ACCURACY + 1e-9 * np.abs(exact[finite])).all(), (stage, error.max())


def test_log_weights_are_summed_with_their_powers(rng):
    stage = Stage(as_potential("logistic(2)"), 1.0, 0.1)
    s, x, y, powers = rng.normal(size=(4, 150))
    forms, room, powers = densities.forms([stage]), np.empty(densities.BLOCK), np.abs(powers)
    found = densities.moved(forms, 0, s, powers, x, 0.3, y, -0.2, np.empty(150), room)
    assert found == pytest.approx(-powers @ stage.energies(s + 0.3 * x - 0.2 * y), rel=1e-12)


def test_rough_potentials_are_refused():
    class Rough:
        breakpoints = (0.0,)

        def log_weight(self, s):
            return -np.abs(s - 0.3)

    with pytest.raises(ValueError, match="breakpoints"):
        densities.forms([Stage(as_potential(Rough()), 1.0)])


# --- a sphere in three dimensions, where exact draws are cheap ---------------------------------------------------------------

PATTERNS = np.array([[1, 1, -1], [1, -1, 1]])
FIELD = np.array([1.0, -0.5, 0.8])
CHAINS = 20_000


def log_law(target, weights):
    stabilities = weights @ PATTERNS.T / np.sqrt(3)
    return target.log_weight(stabilities).sum(axis=1) + weights @ FIELD


def exact_draws(target, k, rng):
    kept, most = [], 0.0
    while sum(map(len, kept)) < k:
        w = target.prior.decode(rng.standard_normal((8 * k, 3)))
        most = (
            most or log_law(target, w).max() + 0.01
        )  # smooth on a sphere: the largest of 10^5 is as good as the maximum
        kept.append(w[np.log(rng.random(len(w))) < log_law(target, w) - most])
    return np.concatenate(kept)[:k]


def kernel(target, weights, field=FIELD, sweeps=2, time=None):
    problem = ss.Perceptron(PATTERNS, target=target)
    stage = Stage.of(target)
    plan = Plan([stage] * sweeps, 0, np.full(sweeps, -1), False, target)
    times = None if time is None else np.full(len(weights), time)
    chains = Chains.start(weights.copy(), plan, np.tile(field, (len(weights), 1)), time=times)
    run_to_end(Run(Rotations(problem, plan, 7, len(weights), 1), chains, plan))
    return chains.weights


def twin(target, weights, forgets=False, sweeps=2):
    """The same moves in NumPy, with random numbers of its own; `forgets` shrinks brackets away from the present point."""
    rng, w = np.random.default_rng(5), weights.copy()
    for move in range(3 * sweeps):
        i, j = [(0, 1), (1, 2), (2, 0)][move % 3]
        level = log_law(target, w) - rng.exponential(size=len(w))
        high = 2 * np.pi * rng.random(len(w))
        low, open_, new = high - 2 * np.pi, np.ones(len(w), bool), w.copy()
        for _ in range(60):
            angle = low + (high - low) * rng.random(len(w))
            turned = w.copy()
            turned[:, i] = w[:, i] * np.cos(angle) - w[:, j] * np.sin(angle)
            turned[:, j] = w[:, i] * np.sin(angle) + w[:, j] * np.cos(angle)
            taken = open_ & (log_law(target, turned) >= level)
            new[taken], open_ = turned[taken], open_ & ~taken
            below = angle > 0 if forgets else angle < 0
            low, high = np.where(open_ & below, angle, low), np.where(open_ & ~below, angle, high)
        w = new
    return w


def summary(weights):
    stabilities = weights @ PATTERNS.T / np.sqrt(3)
    products = np.einsum("ki,kj->kij", weights, weights)[:, [0, 0, 1], [1, 2, 2]]
    near = [(stabilities < edge).sum(axis=1) for edge in (0.301, 0.305, 0.33, 0.4, 0.6)]
    return np.column_stack([weights, products, stabilities, stabilities**2, *near, weights @ FIELD])


def largest_deviation(found, expected):
    a, b = summary(found), summary(expected)
    error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
    return np.abs((a.mean(axis=0) - b.mean(axis=0)) / np.maximum(error, 1e-12)).max()


def sphere(potential="uniform", margin=0.3):
    return ss.Target("spherical", potential, temperature=0.5, margin=margin)


@pytest.mark.parametrize(
    ("move", "potential"),
    [(kernel, "uniform"), (kernel, "log"), (kernel, "hinge"), (kernel, Ramp()), (twin, "uniform")],
)
def test_rotations_keep_the_law(move, potential, rng):
    target = sphere(potential)
    start, expected = exact_draws(target, CHAINS, rng), exact_draws(target, CHAINS, rng)
    assert largest_deviation(start, expected) < LIMIT
    moved = move(target, start)
    assert np.abs(np.linalg.norm(moved, axis=1) - np.sqrt(3)).max() < 1e-12
    assert np.mean((moved != start).any(axis=1)) > 0.999
    assert largest_deviation(moved, expected) < LIMIT


def test_rotations_keep_the_law_with_short_brackets(rng):
    target = sphere()
    start, expected = exact_draws(target, CHAINS, rng), exact_draws(target, CHAINS, rng)
    assert largest_deviation(kernel(target, start, time=400.0), expected) < LIMIT


def test_planted_bugs_are_found(rng):
    target, many = sphere(), 5 * CHAINS
    start, expected = exact_draws(target, many, rng), exact_draws(target, many, rng)
    assert largest_deviation(kernel(target, start), expected) < LIMIT
    assert largest_deviation(twin(target, start[:CHAINS], forgets=True), expected) > LIMIT
    assert largest_deviation(kernel(target, start, field=-FIELD), expected) > LIMIT
    assert largest_deviation(kernel(sphere(margin=0.301), start), expected) > LIMIT
    assert largest_deviation(kernel(sphere(margin=0.299), start), expected) > LIMIT


def test_gaussian_weights_and_an_intercept_keep_their_law(rng):
    """Importance sampling from the prior is the judge: eight constraints on two weights and an intercept, with powers."""
    target = ss.Target("gaussian(2)", "logistic(1.5)", margin=0.2)
    patterns, labels = rng.normal(size=(8, 2)), rng.choice([-1, 1], 8)
    problem = ss.Perceptron(patterns, labels, target=target, intercept=1.5, sample_weight=rng.uniform(0.5, 2, 8))
    prior = rng.standard_normal((400_000, 3)) * [np.sqrt(2), np.sqrt(2), 1.5]
    logs = problem.log_weights(problem.stabilities(prior[:, :2], prior[:, 2]))
    shares = np.exp(logs - logsumexp(logs))
    found = ss.anneal(problem, 500, schedule=[target] * 10, n_extra=160, thin=8, rng=1, n_threads=1)
    drawn = np.column_stack([found.weights, found.intercepts])
    for power in (1, 2):
        exact = shares @ prior**power
        spread = np.sqrt(np.square(shares) @ (prior**power - exact) ** 2)
        by_chain = (drawn**power).reshape(500, -1, 3).mean(axis=1)
        error = np.hypot(by_chain.std(axis=0) / np.sqrt(500), spread)
        assert (np.abs(by_chain.mean(axis=0) - exact) < LIMIT * error).all()


# --- exact draws at a wall ---------------------------------------------------------------------------------------------------


def near_wall(stabilities):
    """Return (k, 5): how many stabilities of each sample are in the bins, and the smallest."""
    counts = [((stabilities >= a) & (stabilities < b)).sum(axis=1) for a, b in pairwise(BINS)]
    return np.column_stack([*counts, stabilities.min(axis=1)])


def deviations(samples, exact, groups):
    """Return (5,) deviations of samples from exact draws in standard errors; `groups` of samples are independent."""
    found, truth = near_wall(samples).reshape(groups, -1, 5).mean(axis=1), near_wall(exact)
    error = np.sqrt(found.var(axis=0, ddof=1) / groups + truth.var(axis=0) / len(truth))
    return (found.mean(axis=0) - truth.mean(axis=0)) / error


def convex(n, patterns):
    target = ss.Target("spherical", "uniform")
    problem = ss.Perceptron.random(n, 0.5, target, patterns, rng=3)
    return problem, problem.stabilities(exact_weights(problem.patterns, 5 * 4096, 0))


LARGE = pytest.mark.exhaustive
SIZES = [(20, "binary"), (20, "gaussian"), (101, "binary"), (101, "gaussian")]
MORE = [pytest.param(201, kind, marks=LARGE) for kind in ("binary", "gaussian")]


@pytest.mark.parametrize(("n", "patterns"), [*SIZES, *MORE])
def test_chains_reach_the_wall(n, patterns):
    problem, exact = convex(n, patterns)
    chains = ss.anneal(problem, 128, schedule=[problem.target] * 100, n_extra=8 * 32, thin=8, rng=1, n_threads=1)
    assert chains.solved.all()
    assert (np.abs(deviations(chains.stabilities, exact, 128)) < SIGMAS).all()


@pytest.mark.parametrize(
    ("n", "patterns", "k"),
    [(20, "binary", 1024), (20, "gaussian", 1024), (101, "binary", 512)]
    + [pytest.param(n, kind, 4096, marks=LARGE) for n in (20, 101, 201) for kind in ("binary", "gaussian")],
)
def test_localized_samples_reach_the_wall(n, patterns, k):
    problem, exact = convex(n, patterns)
    samples = ss.localize(problem, k, rng=1)
    assert samples.solved.all()
    assert (np.abs(deviations(samples.stabilities, exact, k)) < SIGMAS).all()


def test_rescaled_means_do_not_reach_the_wall():
    problem, exact = convex(101, "binary")
    samples = ss.localize(problem, 512, rng=1, finish=0)
    assert np.abs(deviations(samples.stabilities, exact, 512)).max() > 2 * SIGMAS
