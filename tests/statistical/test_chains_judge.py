"""Chains judge themselves and others: mixed ones, stuck ones, too few, and samples of another law; one threshold each."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.annealing.anneal import first_solutions

INSTANCES = range(4)
TARGET = ss.Target("binary", "log", 0.5)


def annealed(i: int, alpha: float = 0.3, n: int = 301, target: ss.Target = TARGET, **options: object) -> ss.Samples:
    problem = ss.Perceptron.random(n, alpha, target, "gaussian", rng=generator(31, i))
    settings = {"n_chains": 24, "n_sweeps": 150, "n_extra": 400, **options}
    return ss.anneal(problem, rng=i, progress=False, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def mixed() -> list[ss.Samples]:
    return [annealed(i) for i in INSTANCES]


def test_mixed_chains_say_within_what(mixed: list[ss.Samples]) -> None:
    for samples in mixed:
        report = ss.diagnose(samples)
        assert report.fair is True, report
        assert report.verdict.startswith(f"mixed: fair within {report.within:.4f}")
        assert 0 < report.within < 0.03
        found = report.mixing
        assert found.memory.value == pytest.approx(found.self_overlap.value - found.cross_overlap.value, abs=1e-5)
        assert abs(found.memory.value) < 4 * found.memory.error
        assert found.cross_overlap.value == pytest.approx(report.overlap.value, abs=0.01)
        assert report.to_dict()["mixing"]["lag"] == 200


def test_chains_that_stay_where_they_are_are_not_mixed(mixed: list[ss.Samples]) -> None:
    """Each chain repeats its last draw, with a few weights flipped at random: nothing moves, and energies look right."""
    for i, samples in enumerate(mixed):
        weights = np.repeat(samples.by_chain()[:, -1:], samples.info.n_draws, axis=1)
        weights[generator(5, i).random(weights.shape) < 0.02] *= -1
        flat = weights.reshape(-1, samples.n)
        stuck = ss.Samples(flat, samples.stabilities, samples.solved, samples.target, samples.info)
        report = ss.diagnose(stuck)
        assert report.fair is False, report
        assert report.verdict.startswith("not mixed: after 200 sweeps a chain's overlap with itself is 0.9")
        assert "more sweeps will hardly do: try exchange=True" in report.verdict


def test_slow_chains_are_told_how_long_to_run() -> None:
    for i in INSTANCES:
        report = ss.diagnose(annealed(i, alpha=0.5, n_extra=16, thin=1))
        assert report.fair is False, report
        assert report.verdict.startswith("not mixed: ")
        assert "run n_extra >= " in report.verdict


def test_loads_beyond_the_chains_reach_are_not_mixed() -> None:
    for i in INSTANCES:
        report = ss.diagnose(annealed(i, alpha=0.75, n_sweeps=100, n_extra=200))
        assert report.fair is False, report
        assert "of the later draws still miss constraints" in report.verdict


def test_too_few_cannot_tell(mixed: list[ss.Samples]) -> None:
    for options, words in (
        ({"n_extra": 0}, "24 chains of 1 draw are"),
        ({"n_chains": 1, "n_extra": 20}, "1 chain of 2 draws is"),
        ({"n_chains": 2}, "run n_chains >= 16 with n_extra >= 1000"),
        ({"n_extra": 1000, "thin": 500}, "run with thin <= 62"),
    ):
        report = ss.diagnose(annealed(0, **options))
        assert report.fair is None
        assert report.verdict.startswith("cannot tell: ")
        assert words in report.verdict
    n_chains = 4
    for _ in range(3):  # four chains know their own error badly: to follow the advice once need not do
        hidden = ss.diagnose(annealed(0, n=51, n_chains=n_chains, n_extra=80))
        if hidden.fair:
            break
        assert f"cannot tell: {n_chains} chains could hide a bias of 0." in hidden.verdict
        n_chains = int(re.search(r"run n_chains >= (\d+)", hidden.verdict)[1])
    assert hidden.fair
    assert n_chains < 200
    solved = first_solutions(ss.Perceptron.random(51, 0.2, rng=1), 4, 40, rng=1, progress=False)
    assert ss.diagnose(solved).verdict.startswith("solutions, not samples")


def test_another_sampler_of_the_same_law_agrees(mixed: list[ss.Samples]) -> None:
    for i, reference in enumerate(mixed):
        own = ss.diagnose(annealed(i, n_chains=32, n_extra=0, n_sweeps=400), reference=reference)
        assert own.fair is True, own
        assert own.verdict.startswith(f"fair within {own.within:.4f}: means, overlaps and energies agree")
        assert own.within > 3 * own.agreement.overlap.error


@pytest.mark.parametrize("temperature", [0.4, 0.65])
def test_another_law_is_found(mixed: list[ss.Samples], temperature: float) -> None:
    for i, reference in enumerate(mixed):
        samples = annealed(i, target=TARGET.replace(temperature=temperature))
        samples.target = TARGET
        report = ss.diagnose(samples, reference=reference)
        assert report.fair is False, report
        assert ("too similar" if temperature < 0.5 else "too different") in report.verdict


def test_means_that_differ_are_found(mixed: list[ss.Samples]) -> None:
    """The overlaps of samples of another instance are right, their means are not; that they are of another is not known here."""
    for samples, other in pairwise(mixed):
        with pytest.raises(ValueError, match="their patterns are others"):
            ss.diagnose(samples, reference=other)
        unknown = ss.Samples(other.weights, other.stabilities, other.solved, other.target, other.info)
        report = ss.diagnose(samples, reference=unknown)
        assert report.fair is False
        assert "the weights' means differ" in report.verdict


def test_a_reference_that_is_not_mixed_is_no_judge(mixed: list[ss.Samples]) -> None:
    reference = annealed(0, n_extra=0, n_sweeps=400)
    report = ss.diagnose(mixed[0], reference=reference)
    assert report.fair is None
    assert "the reference itself is not known to be fair" in report.verdict
    with pytest.raises(ValueError, match="samples of the same problem and target"):
        ss.diagnose(mixed[0], reference=annealed(0, alpha=0.2))
    with pytest.raises(ValueError, match="give one of them"):
        ss.diagnose(mixed[0], ss.predict(TARGET, 0.3), mixed[1])


def test_localized_samples_are_held_against_their_own_marginals() -> None:
    problem = ss.Perceptron.random(501, 0.3, TARGET, rng=3)
    samples = ss.localize(problem, 16, rng=1, progress=False)
    report = ss.diagnose(samples)
    assert report.fair is None
    assert report.verdict.startswith("cannot tell: samples agree with their own marginals")
    samples.weights = samples.weights.copy()
    samples.weights[:, :100] = samples.weights[0, :100]
    assert ss.diagnose(samples).verdict.startswith(
        "biased: samples are too similar to each other for their own marginals"
    )
