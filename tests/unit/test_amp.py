"""`amp`: shapes, options, statuses, damping."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.kernels.amp import respond
from solspace.samplers.marginals.amp import Status
from solspace.samplers.marginals.messages import LADDER, Messages, Relaxation

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem():
    return ss.Perceptron.random(301, 0.4, rng=0)


def test_shapes_follow_the_field(problem, rng):
    one, many = ss.amp(problem), ss.amp(problem, rng.standard_normal((3, 301)), time=[0.5, 1.0, 2.0])
    assert one.mean.shape == one.variance.shape == (301,)
    assert one.status is Status.CONVERGED
    assert one.converged is True
    assert many.mean.shape == many.variance.shape == (3, 301)
    assert many.converged.tolist() == [True] * 3
    assert many.overlap.shape == many.instability.shape == many.iterations.shape == (3,)


def test_the_fixed_point_solves_its_equations(problem, rng):
    """One undamped iteration from the fixed point, written out from Algorithm 1, gives it back."""
    field = rng.standard_normal(301)
    found = ss.amp(problem, field, 1.0, tolerance=1e-24)
    x, m, delta = problem.patterns / np.sqrt(301), found.mean, found.variance
    v = delta.mean()
    g = np.zeros(problem.m)
    for _ in range(2000):  # g enters its own equation through the Onsager reaction
        _, new, dg = problem.target.channel(x @ m - v * g, np.full(problem.m, v))
        g = 0.5 * g + 0.5 * new
    tilt = x.T @ g - problem.alpha * dg.mean() * m + field
    np.testing.assert_allclose(np.tanh(tilt), m, atol=1e-8)
    np.testing.assert_allclose(1 - m**2, delta, atol=2e-7)  # the floor of the variance
    np.testing.assert_allclose(found.instability, problem.alpha * np.mean(dg**2) * np.mean(delta**2), rtol=1e-8)


def test_spherical_marginals_have_the_right_norm(rng):
    problem = ss.Perceptron.random(301, 5, ss.Target("spherical", "uniform", margin=-2), rng=0)
    for patterns in ("scalar", "full"):
        found = ss.amp(problem, rng.standard_normal(301), 1.0, variances=patterns)
        assert np.mean(found.mean**2 + found.variance) == pytest.approx(1, abs=1e-6)


def test_a_batch_is_its_members(problem, rng):
    fields = 2 * rng.standard_normal((20, 301))
    batch = ss.amp(problem, fields, 2.0)
    for j in (0, 7, 19):
        np.testing.assert_allclose(ss.amp(problem, fields[j], 2.0).mean, batch.mean[j], atol=1e-6)


def test_full_variances_are_scalar_ones_for_signs_and_close_for_gaussians(problem):
    same = [ss.amp(problem, variances=v).mean for v in ("scalar", "full")]
    np.testing.assert_allclose(*same, atol=1e-6)
    gaussian = ss.Perceptron.random(2001, 0.3, patterns="gaussian", rng=0)
    scalar, full = (ss.amp(gaussian, variances=v) for v in ("scalar", "full"))
    assert scalar.overlap == pytest.approx(full.overlap, abs=0.01)
    assert np.abs(scalar.mean - full.mean).mean() < 0.02
    assert ss.amp(gaussian).variances == "full"
    assert ss.amp(problem).variances == "scalar"


@pytest.mark.parametrize(("prior", "alpha", "reach"), [("binary", 0.2, 1), ("spherical", 0.8, 3)])
def test_the_instability_is_that_of_the_iteration_on_columns_of_any_size(prior, alpha, reach):
    """Message passing converges where it is below 1, whatever the units of the features."""
    even = ss.Perceptron.random(60, alpha, ss.Target(prior), rng=3)
    scalar, full = (ss.amp(even, variances=v) for v in ("scalar", "full"))
    assert full.instability == pytest.approx(scalar.instability, rel=1e-4)
    rows = even.patterns * np.logspace(0, reach, 60)
    rows *= np.sqrt(60) / np.linalg.norm(rows, axis=1, keepdims=True)
    found = ss.amp(ss.Perceptron(rows, target=even.target))
    assert found.converged
    assert 0.01 < found.instability < 1


@pytest.mark.parametrize("seed", range(3))
def test_spherical_weights_take_scalar_variances_where_entries_are_alike(seed):
    rng, target = np.random.default_rng(seed), ss.Target("spherical")
    even = rng.standard_normal((60, 80))
    uneven = (
        even * rng.uniform(0.5, 1.5, 80),
        even * rng.uniform(0.5, 1.5, 60)[:, None],
        rng.standard_t(2, even.shape),
    )

    chosen = [ss.amp(ss.Perceptron(x, target=target), np.zeros(80), 50.0).variances for x in (even, *uneven)]
    assert chosen == ["scalar", "full", "full", "full"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"field": np.zeros(3)}, r"field must have shape \(301,\) or \(k, 301\)"),
        ({"field": np.full(301, np.nan)}, "field must be finite"),
        ({"damping": 1.0}, "damping must be .* from 0 to below 1"),
        ({"damping": "strong"}, 'damping must be "auto"'),
        ({"tolerance": 0}, "tolerance must be a positive number"),
        ({"max_iterations": 0}, "max_iterations must be an integer"),
        ({"variances": "diagonal"}, "unknown variances"),
        ({"precision": "float16"}, "unknown precision 'float16'"),
    ],
)
def test_nonsense_gets_a_sentence(problem, options, words):
    with pytest.raises(ValueError, match=words):
        ss.amp(problem, **options)


def structured(seed, n=301, m=90, d=24):
    """Return random features of low-dimensional data: undamped message passing blows up on them."""
    random = np.random.default_rng(seed)
    data = random.standard_normal((m, d)) * np.linspace(1.5, 0.5, d)
    return ss.Perceptron(np.tanh(2 * data @ random.standard_normal((d, n)) / np.sqrt(d)))


def test_damping_is_found_where_it_is_needed():
    problem = structured(0)
    with pytest.warns(UserWarning, match="diverged.*Try damping"):
        assert ss.amp(problem, damping=0.0).status is Status.DIVERGED
    found = ss.amp(problem, tolerance=1e-8)
    assert found.status is Status.CONVERGED
    assert found.damping in LADDER[1:]
    np.testing.assert_allclose(found.mean, ss.amp(problem, damping=0.9, max_iterations=3000).mean, atol=5e-3)


def test_divergence_leaves_no_trace():
    """A column that blew up is back where the call found it, and its neighbours never noticed."""
    problem = structured(0)
    messages = Messages(problem, 2, "float64")
    relaxation = Relaxation(messages, 0.0, automatic=False)
    relaxation.damping[:] = 0, 0.8
    with np.errstate(all="ignore"):
        effort = relaxation.run(np.full(2, 1e-8), np.full(2, 2000), np.arange(2))
    assert effort.diverged.tolist() == [True, False]
    assert effort.converged.tolist() == [False, True]
    assert np.isfinite(messages.mean).all()
    assert (messages.mean[:, 0] == 0).all()


def test_a_persistent_relaxation_goes_on_from_where_a_slow_column_is(problem):
    """Damped once and once more, up to a half, and only while the last call did not miss too."""

    def relaxed(persistent, limit):
        relaxation = Relaxation(Messages(problem, 1, "float64"), 0.0, automatic=True, persistent=persistent)
        effort = relaxation.run(np.full(1, 1e-6), np.full(1, limit), np.arange(1))
        return relaxation, effort

    needed = relaxed(False, 1000)[1].iterations[0]
    assert not relaxed(False, needed - 2)[1].converged[0]
    relaxation, effort = relaxed(True, needed - 2)
    assert effort.converged[0]
    assert needed <= effort.iterations[0] < 2 * needed  # it did not begin again
    assert relaxation.damping[0] == LADDER[1]

    relaxation, effort = relaxed(True, 3)
    assert not effort.converged[0]
    assert (effort.iterations[0], relaxation.damping[0]) == (3 + 3 + 5, 0.5)
    again = relaxation.run(np.full(1, 1e-6), np.full(1, 3), np.arange(1))
    assert again.iterations[0] < 5


def test_running_out_of_iterations_is_said(problem):
    with pytest.warns(UserWarning, match="1 of 1 fields not converged"):
        found = ss.amp(problem, max_iterations=3)
    assert found.status is Status.SLOW
    assert found.iterations == 3


def test_responses_far_inside_a_band_are_none_and_not_denormal():
    """Denormal numbers make the products with the patterns ten times slower."""
    product = np.linspace(-1.5, 1.5, 3000, dtype=np.float32).reshape(-1, 2)
    product[-1] = np.nan
    g, new, curvature = (np.zeros_like(product) for _ in range(3))
    variance = np.full(2, 1 / 180, np.float32)
    respond(product, g, variance, np.ones(2, np.float32), ss.Target(potential="band(1)"), new, curvature)
    for values in (g, new):
        assert np.isnan(values[-1]).all()  # a run that has blown up is not hidden
        size = np.abs(values[:-1])
        assert ((size == 0) | (size >= np.finfo(np.float32).tiny)).all()
        assert (size == 0).any()
        assert (size > 1).any()
