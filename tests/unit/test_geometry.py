"""Local entropy, barriers and displacement: shapes, errors, and identities of message passing in a field."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.geometry.local_entropy import AmpTilted, EpTilted, local_entropy

UNIFORM = ss.Target(potential="uniform")
SPHERE = ss.Target("spherical", "uniform", margin=-0.5)


@pytest.fixture(scope="module")
def chains():
    problem = ss.Perceptron.random(n=201, alpha=0.3, rng=0)
    return problem, ss.anneal(problem, 3, n_extra=60, thin=20, rng=1)


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
@pytest.mark.parametrize("case", [(AmpTilted, UNIFORM), (EpTilted, UNIFORM), (AmpTilted, SPHERE)])
def test_the_overlap_is_the_derivative_of_log_z(case, patterns):
    kind, target = case
    problem = ss.Perceptron.random(201, 0.5, target, patterns=patterns, rng=3)
    tilted = kind(problem, np.atleast_2d(target.prior.draw(201, 1)).astype(float))
    for field in (0.3, 1.0):
        low, here, high = (tilted.at(np.array([field + step])) for step in (-1e-3, 0.0, 1e-3))
        assert here.converged.all()
        assert (high.log_partition - low.log_partition) / 2e-3 == pytest.approx(here.overlap, abs=2e-5)


def test_rows_of_unequal_length_take_variances_of_their_own():
    patterns = np.random.default_rng(0).standard_normal((60, 201)) * np.linspace(0.5, 1.5, 60)[:, None]
    for target in (UNIFORM, SPHERE):
        problem = ss.Perceptron(patterns, target=target)
        tilted = AmpTilted(problem, np.atleast_2d(target.prior.draw(201, 1)).astype(float))
        assert tilted._messages.full
        low, here, high = (tilted.at(np.array([0.5 + step])) for step in (-1e-3, 0.0, 1e-3))
        assert (high.log_partition - low.log_partition) / 2e-3 == pytest.approx(here.overlap, abs=2e-5)


def test_amp_and_ep_agree_and_the_curve_is_concave(chains):
    problem, samples = chains
    overlaps = [0.1, 0.5, 0.8, 0.95]
    by_ep, by_amp = (local_entropy(problem, samples[:2], overlaps, method=name) for name in ("ep", "amp"))
    assert by_ep.values == pytest.approx(by_amp.values, abs=1e-3)
    assert (np.diff(by_ep.fields, axis=1) > 0).all()
    assert by_ep.distances.tolist() == pytest.approx([0.45, 0.25, 0.1, 0.025])
    alone = local_entropy(problem, samples.weights[1], [0.8])
    assert alone.values[0, 0] == pytest.approx(by_ep.values[1, 2], abs=2e-6)  # whatever is beside it and before it


def test_a_grid_of_its_own(chains):
    problem, samples = chains
    found = local_entropy(problem, samples[0], method="amp")
    typical = ss.amp(problem.with_target(UNIFORM)).mean @ samples.weights[0] / problem.n
    assert found.overlaps[0] == pytest.approx(typical, abs=1e-3)
    assert found.overlaps[-1] == 0.98
    assert found.values.shape == (1, 16)
    assert abs(found.fields[0, 0]) < 0.01


def test_arguments_of_local_entropy(chains):
    problem, samples = chains
    for arguments, named in (
        ((problem, samples.weights[:, :5]), "reference"),
        ((problem, samples, [1.0]), "overlaps"),
        ((problem, samples, [0.5], SPHERE), "prior"),
        ((ss.Perceptron.random(201, 0.3, rng=9), samples), "another problem"),
    ):
        with pytest.raises(ValueError, match=named):
            local_entropy(*arguments)
    clamped = ss.Perceptron(problem.patterns, clamped={0: 1})
    with pytest.raises(ValueError, match="clamped"):
        local_entropy(clamped, samples.weights)


def test_barriers_of_all_pairs(chains):
    problem, samples = chains
    few = samples[::3]
    found = ss.barrier(problem, few)
    assert found.worst.shape == (3, 3)
    assert (found.worst == found.worst.T).all()
    assert found.worst[0, 1] == ss.barrier(problem, few[0], few[1]).worst
    assert found.path is None
    with pytest.raises(ValueError, match="w1 and w2"):
        ss.barrier(problem, few, few[0])
    with pytest.raises(ValueError, match="prior"):
        ss.barrier(problem, 2 * few.weights)
    sphere, pole = ss.Perceptron.random(9, 0.3, SPHERE, rng=0), SPHERE.prior.draw(9, 0)
    with pytest.raises(ValueError, match="opposite"):
        ss.barrier(sphere, pole, -pole)
    same = ss.barrier(problem, few[0], few[0])
    assert same.worst == 0
    assert len(same.path) == 1


def test_displacement(chains):
    problem, samples = chains
    moved = samples.displacement()
    assert moved.sweeps.tolist() == [0, 20, 40]
    assert moved.overlaps[1, 2] == pytest.approx(samples.weights[3] @ samples.weights[5] / problem.n)
    assert moved.plateau == pytest.approx(ss.predict(problem.target, problem.alpha).overlap)
    assert samples.displacement(False).plateau is None
    with pytest.raises(ValueError, match="n_extra"):
        ss.anneal(problem, 2, rng=0).displacement()


def test_pictures(chains):
    from solspace.plots.style import panels

    problem, samples = chains
    figure, axes = panels(3)
    local_entropy(problem, samples[0], [0.6, 0.9]).plot(
        axes[0], theory=ss.franz_parisi(problem.target, 0.3, overlaps=[0.6, 0.9])
    )
    ss.barrier(problem, samples[::3]).plot(axes[1])
    samples.displacement().plot(axes[2])
    figure.canvas.draw()
    assert "theory" in {line.get_label() for line in axes[0].lines}
