"""Stochastic localization with the exact denoiser gives the enumerated law; with a slightly wrong one it does not.

Six instances, 1000 draws each, and one threshold fixed in advance: the z-score of the mean log weight (the quantity
conjugate to the temperature), combined over the instances, and the largest z-score among all marginals. A correct
sampler exceeds 4.5 in either about once in 10^3 runs; the planted bugs must.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.localization import finish

DRAWS, THRESHOLD = 1000, 4.5
TARGET = ss.Target(temperature=0.5, margin=-0.2)


def instances(target=TARGET, count=6):
    """Random instances with at least ten solutions: with fewer there is little to get wrong."""
    found, seed = [], 0
    while len(found) < count:
        problem = ss.Perceptron.random(9, 0.45, target, rng=generator(77, seed))
        seed += 1
        if problem.enumerate().n_solutions >= 10:
            found.append(problem)
    return found


def z_scores(problem, weights):
    """Return the z-scores of the mean log weight and of the marginals under the enumerated law."""
    law = problem.enumerate()
    observed = np.column_stack([problem.target.log_weight(problem.stabilities(weights)).sum(axis=1), weights])
    p = law.probabilities
    exact = np.column_stack([np.where(p > 0, law.log_weights, 0), law.weights])
    mean = p @ exact
    deviation = np.sqrt(p @ (exact - mean) ** 2 / len(weights)) + 1e-9
    return (observed.mean(axis=0) - mean) / deviation


def judge(draw, target=TARGET):
    """Return how far `draw(problem, seed)` is from fair: the larger of the two statistics."""
    scores = np.array([z_scores(problem, draw(problem, seed)) for seed, problem in enumerate(instances(target))])
    return max(abs(scores[:, 0].sum()) / np.sqrt(len(scores)), np.abs(scores[:, 1:]).max())


def localized(problem, seed, wrong=None, finish=0, **options):
    law = (problem if wrong is None else problem.with_target(wrong)).enumerate()
    return ss.localize(
        problem, DRAWS, seed, denoiser=lambda h, t: law.posterior_mean(h), finish=finish, progress=False, **options
    ).weights


def test_the_judge_passes_exact_draws():
    assert judge(lambda problem, seed: problem.enumerate().sample(DRAWS, rng=seed)) < THRESHOLD


@pytest.mark.parametrize("integrator", ["heun", "posterior"])
def test_exact_denoiser_gives_the_enumerated_law(integrator):
    assert judge(lambda problem, seed: localized(problem, seed, integrator=integrator)) < THRESHOLD


@pytest.mark.parametrize("bug", [{"margin": 0.2}, {"temperature": 0.5 / 1.1}])
@pytest.mark.filterwarnings("ignore:.*samples miss constraints")
def test_planted_bugs_fail(bug):
    assert judge(lambda problem, seed: localized(problem, seed, TARGET.replace(**bug))) > THRESHOLD


def test_the_lagging_euler_scheme_fails():
    assert judge(lambda problem, seed: localized(problem, seed, integrator="euler")) > THRESHOLD


@pytest.mark.parametrize(("potential", "time"), [("hinge", 0.3), ("hinge", 1.0), ("log", 2.0), ("log", 6.0)])
def test_leaving_by_heat_bath_at_any_time_gives_the_enumerated_law(potential, time):
    """From any time where single flips lead everywhere: so early only where the wall is soft."""
    target = TARGET.replace(potential=potential)

    def left(problem, seed):
        return localized(problem, seed, finish=100, final_time=time, integrator="heun")

    assert judge(left, target) < THRESHOLD


def test_samples_that_leave_when_they_can_follow_the_enumerated_law():
    assert judge(lambda problem, seed: localized(problem, seed, finish="auto", integrator="heun")) < THRESHOLD


@pytest.mark.parametrize("wrong", ["no field", "half the field", "field of another", "few sweeps from anywhere"])
def test_a_finish_in_a_wrong_field_fails(wrong, monkeypatch):
    right = finish.Bath.draw

    def draw(bath, samples, *rest):
        fields, means = samples.fields(), samples.means()
        fields = {"no field": 0 * fields, "half the field": fields / 2, "field of another": np.roll(fields, 1, 0)}.get(
            wrong, fields
        )
        means = np.sign(means) if wrong.startswith("few") else means
        return right(bath, SimpleNamespace(fields=lambda: fields, means=lambda: means), *rest)

    monkeypatch.setattr(finish.Bath, "draw", draw)
    sweeps = 1 if wrong.startswith("few") else 100
    assert judge(lambda problem, seed: localized(problem, seed, finish=sweeps, final_time=0.5)) > THRESHOLD
