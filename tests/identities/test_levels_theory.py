"""Identities of replica theory where the norm of the weights is an order parameter: levels and Gaussian weights."""

import numpy as np
import pytest

import solspace as ss
from solspace.measure.priors import Levels
from solspace.numerics.rules import hermite
from solspace.theory.levels import LevelLaw, LevelWeights
from solspace.theory.weights import BinaryWeights, free_weights

CASES = {
    "ternary": (ss.Target("ternary", "uniform"), 0.5),
    "ternary log": (ss.Target("ternary", "log", 0.5), 0.9),
    "0, 1": (ss.Target("levels(0,1)", "log", 0.4, margin=0.2), 0.2),
    "four levels": (ss.Target("levels(-3,-1,1,3)", "logistic(2)"), 1.0),
    "unequal": (ss.Target(Levels([-1, 0, 2], [0.2, 0.7, 0.1]), "probit(0.5)", margin=-0.3), 0.8),
    "even": (ss.Target("ternary", "log_band(1)", 0.5), 0.6),
    "gaussian": (ss.Target("gaussian(2)", "log", 0.5, margin=-0.4), 1.2),
    "many levels": (ss.Target("levels(-7,-5,-3,-1,1,3,5,7)", "log", 0.3), 0.02),
    "weights that shrink": (ss.Target("gaussian(1)", "uniform", margin=-0.3), 3.0),
    "0, 1 in a band": (ss.Target("levels(0,1)", "band(1)"), 0.9),
    "gaussian even": (ss.Target("gaussian(1)", "log_band(1)", 0.7), 0.8),
}


@pytest.fixture(scope="module", params=CASES)
def p(request):
    return ss.predict(*CASES[request.param])


def inner(p, shares=(0.02, 0.3, 0.7, 0.97)):
    return p.overlap + (p.norm - p.overlap) * np.array(shares)


def test_starts_at_the_reference(p):
    assert p.localization_time(p.overlap) == 0
    np.testing.assert_allclose(p.free_entropy_at(p.overlap, 0.0), p.free_entropy, rtol=1e-10)
    np.testing.assert_allclose(p.instability_at(p.overlap), p.replicon, rtol=1e-9)
    assert p.status.ok


def test_slopes(p):
    """2 dφ_t/dq = t - F, and F' = (1 - λ)/χ: entropy, signal and susceptibility of a weight are integrated on their own."""
    q, t = inner(p), 0.7
    h = 0.01 * np.minimum(q - p.overlap, p.norm - q)

    def slope(f):
        values = [f(q + k * h) for k in (-2, -1, 1, 2)]
        return (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)

    scale = 1 + np.abs(p.localization_time(q))
    np.testing.assert_allclose(
        2 * slope(lambda x: p.free_entropy_at(x, t)), t - p.localization_time(q), atol=1e-7 * scale.max()
    )
    weights = free_weights(p.target.prior).localized(p.conjugate, p.conjugate - p.norm_conjugate)
    expected = (1 - p.instability_at(q)) / weights(q - p.overlap, p.norm - q).susceptibility
    np.testing.assert_allclose(slope(p.localization_time), expected, rtol=1e-6, atol=1e-7)


def test_free_entropy_is_stationary(p):
    """φ(r, Q, r̂, r̂_d) by an independent quadrature, and its four derivatives."""
    z = np.linspace(-12, 12, 4001)
    share = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()

    def free_entropy(x):
        r, norm, conjugate, of_norm = x
        weights = p.target.prior.log_partition(conjugate - of_norm, np.sqrt(abs(conjugate)) * z)
        log_z, _, _ = p.target.channel(np.sqrt(abs(r)) * z, norm - r)
        return (r * conjugate - norm * of_norm) / 2 + share @ weights + p.alpha * (share @ log_z)

    at = np.array([p.overlap, p.norm, p.conjugate, p.norm_conjugate])
    np.testing.assert_allclose(free_entropy(at), p.free_entropy, rtol=1e-10)
    size = np.maximum(np.abs(at), 0.1)
    for k in range(4) if p.overlap > 0 else (1, 3):
        h = 2.5e-4 * size[k] * np.eye(4)[k]
        values = [free_entropy(at + j * h) for j in (-2, -1, 1, 2)]
        slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / 3e-3
        assert abs(slope) < 2e-9 * max(1, np.abs(at).max())


def test_free_entropy_grows_with_time_by_half_the_overlap(p):
    times = 0.3 * (1 + 1e-3 * np.array([-2, -1, 1, 2]))
    top = p.free_entropy_at(p.overlap_at(times), times)
    slope = (top[0] - 8 * top[1] + 8 * top[2] - top[3]) / (12 * 0.3e-3)
    np.testing.assert_allclose(slope, p.overlap_at(0.3) / 2, rtol=1e-8)


def posterior_mean(prior, signal, precision, strength=1.0):
    # E[w m] and E[m²] over weights of the prior and fields B = x w + √x z, if m is the mean at this precision
    z, share = hermite(120)
    values, chances = np.array(prior.values), np.exp(prior.log_weights) / len(prior.values)
    m = prior.marginals(precision, strength * (signal * values[:, None] + np.sqrt(signal) * z))[0]
    return (chances * values) @ m @ share, chances @ m**2 @ share


def test_term_of_the_norm_does_not_cancel():
    """A sample is exchangeable with the weight itself, unless -t w²/2 is left out or the field is that of another temperature."""
    for prior in (ss.priors.as_prior("ternary"), Levels([-1, 0, 2], [0.2, 0.7, 0.1])):
        direct, square = posterior_mean(prior, 1.5, precision=1.5)
        variance = LevelLaw(LevelWeights(prior), 0.0, 0.0).averages([1.5])[0, 0]
        np.testing.assert_allclose([direct, square], prior.second_moment - variance, rtol=1e-9)
        for wrong in ({"precision": 0.0}, {"precision": 1.5, "strength": 1.1}):
            direct, square = posterior_mean(prior, 1.5, **wrong)
            assert abs(direct - square) > 0.01
    assert np.ptp(posterior_mean(Levels([-1, 1]), 1.5, precision=0.0)) < 1e-9  # of ±1 weights it does cancel
    assert np.ptp(posterior_mean(Levels([-1, 1]), 1.5, precision=0.0, strength=1.1)) > 0.01


def test_levels_of_one_size_are_binary():
    levels, binary = LevelWeights(Levels((-1.0, 1.0))), BinaryWeights()
    for conjugate in (0.0, 0.3, 5.0):
        here, there = levels.reference(np.array([conjugate]), np.array([0.7])), binary.reference([conjugate])
        np.testing.assert_allclose(
            np.ravel(here[:2] + here[3:5]), np.ravel(there[:2] + there[3:5]), rtol=1e-12, atol=1e-14
        )
        rest = there.variance * np.array([0.9, 0.1, 1e-3, 1e-20])
        found, known = (
            law(there.variance - rest, rest) for law in (levels.localized(conjugate, 0.7), binary.localized(conjugate))
        )
        np.testing.assert_allclose(found.excess, known.excess, rtol=1e-10)
        np.testing.assert_allclose(found.susceptibility, known.susceptibility, rtol=1e-9)
        np.testing.assert_allclose(found.entropy, known.entropy, atol=1e-13)


@pytest.mark.parametrize(
    "prior", [Levels((-1, 0, 1)), Levels((-1, 0, 1), (0.495, 0.01, 0.495)), Levels((-7, -1, 0, 2))]
)
@pytest.mark.parametrize(("conjugate", "precision"), [(5.0, 4.0), (80.0, 20.0), (80.0, -1.0)])
def test_correlations_are_the_integrals_by_panels(prior, conjugate, precision):
    law = LevelLaw(LevelWeights(prior), conjugate, precision)
    for d in (3.0, 40.0, 600.0):
        np.testing.assert_allclose(law._far(d), law._by_panels(d), rtol=1e-11)


def test_gaussian_weights_are_the_sphere_where_only_directions_count():
    sphere, real = (ss.predict(ss.Target(prior, "uniform"), 1.2) for prior in ("spherical", "gaussian(1)"))
    np.testing.assert_allclose([real.overlap, real.norm], [sphere.overlap, 1.0], rtol=1e-9)
    np.testing.assert_allclose(sphere.free_entropy - real.free_entropy, np.log(2 * np.pi * np.e) / 2, rtol=1e-9)
    np.testing.assert_allclose([real.entropy, real.replicon], [sphere.entropy, sphere.replicon], rtol=1e-8)
    q = sphere.overlap + (1 - sphere.overlap) * np.array([0.1, 0.5, 0.9])
    np.testing.assert_allclose(real.localization_time(q), sphere.localization_time(q), rtol=1e-7)
    # |w| has a law of its own where W(s) = s^β: Q = 1 + αβ
    sphere, real = (ss.predict(ss.Target(prior, "log", 0.5), 0.8) for prior in ("spherical", "gaussian(3)"))
    np.testing.assert_allclose([real.overlap / real.norm, real.norm], [sphere.overlap, 3 * (1 + 0.8 * 2)], rtol=1e-8)


def test_units_of_levels():
    small, large = (
        ss.predict(ss.Target("ternary", "uniform", margin=0.2), 0.4),
        ss.predict(ss.Target("levels(-2,0,2)", "uniform", margin=0.4), 0.4),
    )
    np.testing.assert_allclose([large.overlap, large.norm], [4 * small.overlap, 4 * small.norm], rtol=1e-9)
    np.testing.assert_allclose(large.entropy, small.entropy, rtol=1e-9)
    np.testing.assert_allclose(4 * large.localization_time(2.0), small.localization_time(0.5), rtol=1e-8)


def test_unequal_probabilities():
    target = ss.Target("ternary(0.3)", "uniform")
    free = ss.predict(target, 1e-7)
    shares = np.array([0.15, 0.7, 0.15])
    np.testing.assert_allclose([free.entropy, free.norm], [-(shares @ np.log(shares)), 0.3], rtol=1e-5)
    assert abs(ss.predict(target, 0.5).capacity - 1.17448) < 1e-5  # solutions are there whatever their probability
    assert ss.predict(ss.Target("gaussian(1)", "uniform", margin=0.3), 0.5).capacity == 2
    assert ss.predict(ss.Target("gaussian(1)", "uniform", margin=-0.3), 0.5).capacity is None
