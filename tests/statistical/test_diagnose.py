"""`diagnose` calls fair samples fair and biased ones biased, in the right words.

One size, one number of samples, several instances; every planted bias must be found on every instance, and no fair run
may be called biased (over 230 others none was).
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator

N, ALPHA, K = 1001, 0.3, 8
TARGET = ss.Target("binary", "log", 0.5)
INSTANCES = range(4)


@pytest.fixture(scope="module")
def prediction():
    return ss.predict(TARGET, ALPHA)


def sampled(i, target=TARGET, **options):
    problem = ss.Perceptron.random(N, ALPHA, target, rng=generator(17, i))
    return problem, ss.localize(problem, K, rng=i, progress=False, **options)


@pytest.fixture(scope="module")
def fair():
    return [sampled(i) for i in INSTANCES]


def verdicts(runs, prediction):
    return [ss.diagnose(samples, prediction) for _, samples in runs]


def test_fair_samples_are_called_fair(fair, prediction):
    for report in verdicts(fair, prediction):
        assert report.fair is True, report
        assert report.verdict.startswith(f"fair within {report.within:.3f}: ")
        assert 0.02 < report.within < 0.15
        assert report.n_solved == K
        assert report.copies == 0


@pytest.mark.parametrize(
    ("changes", "alpha"),
    [({"prior": "spherical"}, 0.3), ({"temperature": 0.55}, 0.3), ({"margin": 0.1}, 0.3), ({}, 0.25), ({}, 0.302)],
)
def test_a_prediction_of_another_target_or_load_is_refused(fair, changes, alpha):
    with pytest.raises(ValueError, match="prediction must be"):
        ss.diagnose(fair[0][1], ss.predict(TARGET.replace(**changes), alpha))


@pytest.mark.parametrize(("n", "alpha"), [(501, 0.3), (51, 0.31), (20, 0.01)])
def test_a_load_that_n_rounds_is_the_same_load(n, alpha):
    problem = ss.Perceptron.random(n, alpha, ss.Target(potential="uniform", temperature=1.0), rng=0)
    samples = ss.Samples.of(problem, generator(0).choice([-1, 1], (4, n)).astype(np.int8))
    for load in (alpha, problem.alpha):
        assert ss.diagnose(samples, ss.predict(ss.Target(potential="uniform"), load)).verdict


def test_the_numbers_are_near_their_noise(fair, prediction):
    reports = verdicts(fair, prediction)
    assert np.mean([r.ks.value / r.ks.noise for r in reports]) == pytest.approx(1, abs=0.3)
    assert np.mean([r.overlap.value for r in reports]) == pytest.approx(prediction.overlap, abs=0.03)
    assert all(r.path_deviation < 0.1 for r in reports)
    assert all(r.instability.value < 0.3 for r in reports)


@pytest.mark.parametrize(("temperature", "words"), [(0.3, "too similar"), (1.0, "too different")])
def test_a_wrong_temperature_is_found(temperature, words, prediction):
    for i in INSTANCES:
        _, samples = sampled(i, TARGET.replace(temperature=temperature))
        samples.target = TARGET
        report = ss.diagnose(samples, prediction)
        assert report.fair is False, report
        assert report.verdict.startswith("biased:")
        assert words in report.verdict


def test_a_wrong_margin_is_found(prediction):
    """They solve the problem, with room to spare: too much of it."""
    for i in INSTANCES:
        _, samples = sampled(i, TARGET.replace(margin=0.3))
        assert samples.solved.all()
        samples.target = TARGET
        report = ss.diagnose(samples, prediction)
        assert report.fair is False, report
        assert "the histogram of stabilities is off" in report.verdict


@pytest.mark.parametrize("n", [201, 501])
def test_labels_of_a_teacher_are_found(n):
    """They make the same patterns easier: stabilities are larger than theory says of random labels."""
    prediction, found = ss.predict(TARGET, 0.5), []
    for i in range(8):
        random = generator(23, n, i)
        patterns, teacher = random.choice([-1, 1], (n // 2, n)), random.choice([-1, 1], n)
        problem = ss.Perceptron(patterns, np.where(patterns @ teacher >= 0, 1, -1), target=TARGET)
        found.append(ss.diagnose(ss.localize(problem, K, rng=i, progress=False), prediction))
    biased = [report for report in found if report.fair is False]
    assert len(biased) >= {201: 4, 501: 8}[n]
    assert all("stabilities" in report.verdict for report in biased)
    # what so few constraints cannot show is at least said
    assert all(report.fair is False or "of stabilities above 0.2" in report.verdict for report in found)


def test_copies_are_found(fair, prediction):
    for problem, samples in fair:
        weights = samples.weights.copy()
        weights[-1] = weights[0]
        report = ss.diagnose(ss.Samples.of(problem, weights), prediction)
        assert report.fair is False
        assert report.verdict.startswith("biased: 1 of 8 samples are copies of another one")
        assert ss.diagnose(ss.Samples.of(problem, weights)).fair is False


@pytest.mark.parametrize(("kept", "flips"), [(4, 1), (8, 1), (8, 20)])
def test_near_copies_are_found(fair, prediction, kept, flips):
    """Also by samples that are judged by nothing but their other overlaps."""
    for i, (problem, samples) in enumerate(fair):
        near = samples.weights[:kept].copy()
        for row in near:
            solutions = (flipped(row, generator(6, i, at), flips) for at in range(10**4))
            row[:] = next(one for one in solutions if problem.is_solution(one))
        both = ss.Samples.of(problem, np.concatenate([samples.weights[:kept], near]))
        assert both.solved.all()
        for report in (ss.diagnose(both, prediction), ss.diagnose(both)):
            assert report.fair is False
            assert report.copies == kept
            assert report.verdict.startswith(
                f"biased: {kept} of {2 * kept} samples are copies of another one, or nearly so"
            )


def flipped(row, random, flips):
    """Return weights with some of them flipped at random."""
    row = row.copy()
    row[random.choice(len(row), flips, replace=False)] *= -1
    return row


@pytest.mark.exhaustive
@pytest.mark.parametrize(("n", "alpha", "prior"), [(51, 0.6, "binary"), (101, 0.5, "binary"), (51, 0.8, "spherical")])
@pytest.mark.filterwarnings("ignore:.*Try")
def test_fair_samples_that_meet_are_no_copies(n, alpha, prior):
    """Where there are few solutions samples are the same, or alike, by chance."""
    target = ss.Target(prior, "log", 0.5)
    prediction, met = ss.predict(target, alpha), 0
    for i in range(4):
        samples = ss.localize(
            ss.Perceptron.random(n, alpha, target, rng=generator(18, n, i)), 32, rng=i, progress=False
        )
        samples = samples[samples.solved]
        met += len(samples) - len(np.unique(samples.weights, axis=0))
        for k in (2, 4, 8, 32):
            for report in (ss.diagnose(samples[:k], prediction), ss.diagnose(samples[:k])):
                assert report.copies == 0
    assert met > 0 or n > 51 or prior == "spherical"


def test_too_few_samples_are_not_called_fair(prediction):
    problem = ss.Perceptron.random(51, ALPHA, TARGET, rng=0)
    samples = ss.localize(problem, 2, rng=1, progress=False)
    report = ss.diagnose(samples, prediction)
    assert report.fair is None
    assert report.within is None
    assert "take n >= 300" in report.verdict
    small = ss.Perceptron.random(201, ALPHA, TARGET, rng=0)
    report = ss.diagnose(ss.localize(small, 2, rng=1, progress=False), prediction)
    many = int(re.search(r"take (\d+) samples", report.verdict)[1])
    assert 2 < many <= 8
    assert ss.diagnose(ss.localize(small, 2 * many, rng=1, progress=False), prediction).fair is True


def test_advice_is_of_the_sampler_that_is_judged(fair, prediction):
    """Those of a localization can be more careful, others cannot; the same stabilities on other patterns are no fault of it."""
    problem, samples = fair[0]
    alike = samples.weights.copy()
    alike[:, :300] = alike[0, :300]
    gathered = ss.Samples(alike, samples.stabilities, samples.solved, TARGET, samples.info)
    assert 'Try accuracy="careful"' in ss.diagnose(gathered, prediction).verdict
    plain = ss.diagnose(ss.Samples(alike, samples.stabilities, samples.solved, TARGET), prediction).verdict
    assert "Try ss.localize" in plain
    moved = ss.Samples(samples.weights, samples.stabilities + 1, samples.solved, TARGET, samples.info)
    words = ss.diagnose(moved, prediction).verdict
    assert "random" in words
    assert "Try" not in words
    found = ss.solve(problem, 3, rng=0)
    assert ss.diagnose(found, prediction).fair is None
    assert ss.diagnose(found, prediction).verdict.startswith("solutions, not samples")
    sphere = ss.Target("spherical", "log", 0.5)
    real = ss.localize(ss.Perceptron.random(101, 0.3, sphere, rng=0), 4, rng=0, progress=False)
    assert "anneal" not in ss.diagnose(real).verdict


def test_samples_from_one_corner_are_found(fair, prediction):
    """A walk from a solution that keeps all constraints met: solutions, with stabilities that look right, all alike."""
    for i, (problem, samples) in enumerate(fair):
        random = generator(3, i)
        walkers = np.repeat(samples.weights[:1], K, axis=0)
        for row in walkers:
            for site in random.permutation(N)[:40]:
                row[site] *= -1
                if not problem.is_solution(row):
                    row[site] *= -1
        report = ss.diagnose(ss.Samples.of(problem, walkers), prediction)
        assert report.fair is False
        assert "too similar to each other" in report.verdict
        assert "Try ss.localize" in report.verdict


@pytest.mark.parametrize(("spoilt", "word"), [(2, "biased: 2 of 8 samples are no solutions"), (6, "failed: 6 of 8")])
def test_violations_are_found(fair, prediction, spoilt, word):
    for i, (problem, samples) in enumerate(fair):
        weights = samples.weights.copy()
        weights[:spoilt] *= generator(4, i).choice([-1, 1], (spoilt, N)).astype(np.int8)
        report = ss.diagnose(ss.Samples.of(problem, weights), prediction)
        assert report.fair is False
        assert report.verdict.startswith(word)
        assert "constraints are missed" in report.verdict
        assert "Try" in report.verdict
