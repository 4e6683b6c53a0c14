"""`diagnose` calls fair samples fair and biased ones biased, in the right words.

One size, one number of samples, several instances; every planted bias must be found on every instance, and no fair run
may be called biased (over 230 others none was).
"""

from __future__ import annotations

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
        assert 0.02 < report.within < 0.1
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
    for report in found:
        assert report.fair is False or f"stabilities within {2.3 * report.w1.noise:.3f}" in report.verdict


def test_copies_are_found(fair, prediction):
    for problem, samples in fair:
        weights = samples.weights.copy()
        weights[-1] = weights[0]
        report = ss.diagnose(ss.Samples.of(problem, weights), prediction)
        assert report.fair is False
        assert report.verdict.startswith("biased: 1 of 8 samples are copies of another one")
        assert ss.diagnose(ss.Samples.of(problem, weights)).fair is False


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
        assert "smaller step" in report.verdict


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
