"""What any solution of the replica equations must satisfy, over priors, potentials, margins and temperatures."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solspace as ss
from solspace.theory.localization import Landscape, Localization
from solspace.theory.reference import equilibrium, solve
from solspace.theory.weights import weights_of


class Square:
    """A user's potential with a closed form to compare with: a Gaussian weight."""

    breakpoints = ()

    def log_weight(self, s):
        return -((np.asarray(s) - 0.5) ** 2)


class OwnLog:
    """The log potential as a user would write it, without its channel."""

    breakpoints = (0.0,)

    def log_weight(self, s):
        s = np.asarray(s, dtype=float)
        return np.where(s > 0, np.log(np.where(s > 0, s, 1.0)), -np.inf)


class Steep:
    """A user's potential, all derivatives of whose weight vanish at the wall."""

    breakpoints = (0.0,)

    def __init__(self, power):
        self.power = power

    def log_weight(self, s):
        s = np.asarray(s, dtype=float)
        return np.where(s > 0, -1 / np.where(s > 0, s, 1.0) ** self.power, -np.inf)


CASES = {
    "binary uniform": (ss.Target("binary", "uniform", margin=0.3), 0.35),
    "binary log": (ss.Target("binary", "log", 0.5), 0.6),
    "binary log, hot": (ss.Target("binary", "log", 2.0, margin=-0.7), 0.8),
    "binary errors": (ss.Target("binary", "errors", 0.3), 0.9),
    "binary hinge": (ss.Target("binary", "hinge", 0.2, margin=0.4), 0.7),
    "binary band": (ss.Target("binary", "band(0.8)"), 0.9),
    "binary band off centre": (ss.Target("binary", "band(1.0)", margin=0.4), 0.8),
    "binary log_band": (ss.Target("binary", "log_band(0.8)", 0.6), 0.5),
    "binary walls off centre": (ss.Target("binary", ss.potentials.wall(-0.6, 1.4), 0.5), 0.6),
    "binary wall above": (ss.Target("binary", ss.potentials.wall(None, 0.5), 0.5), 0.3),
    "spherical log_band": (ss.Target("spherical", "log_band(1.2)", 0.5), 1.0),
    "binary log_quadratic": (ss.Target("binary", "log_quadratic(1.7, 1.2)", 0.98), 0.68),
    "binary steep": (ss.Target("binary", Steep(1), 1.0, margin=0.3), 0.2),
    "sphere steep": (ss.Target("spherical", Steep(3), 0.5, margin=-0.5), 0.6),
    "sphere uniform": (ss.Target("spherical", "uniform", margin=-1.5), 10.0),
    "sphere rare": (ss.Target("spherical", "uniform", margin=-4.5), 5e4),
    "sphere positive margin": (ss.Target("spherical", "uniform", margin=1.0), 0.4),
    "sphere near capacity": (ss.Target("spherical", "uniform"), 1.97),
    "sphere log": (ss.Target("spherical", "log", 0.3, margin=-1.0), 3.0),
    "sphere square": (ss.Target("spherical", Square(), 1.0), 2.0),
}


@pytest.fixture(scope="module", params=CASES)
def p(request):
    return ss.predict(*CASES[request.param])


def _overlaps(p, shares=(0.02, 0.2, 0.5, 0.8, 0.95, 0.99)):
    return p.overlap + (1 - p.overlap) * np.array(shares)


def test_starts_at_the_reference(p):
    assert p.localization_time(p.overlap) == 0
    np.testing.assert_allclose(p.free_entropy_at(p.overlap, 0.0), p.free_entropy, rtol=3e-11, atol=1e-11)
    np.testing.assert_allclose(p.instability_at(p.overlap), p.replicon, rtol=1e-11)


def test_equations_hold(p):
    weights = weights_of(p.target.prior).reference([p.conjugate])
    np.testing.assert_allclose(weights.overlap[0], p.overlap, rtol=1e-14, atol=0)
    z = np.linspace(-14, 14, 5001)  # an independent quadrature
    share = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    _, g, _ = p.target.channel(np.sqrt(p.overlap) * z, 1 - p.overlap)
    np.testing.assert_allclose(p.alpha * (share @ g**2), p.conjugate, rtol=1e-10, atol=1e-20)


def test_slope_of_the_free_entropy_is_the_time_left(p):
    q, t = _overlaps(p), 0.7
    h = 0.01 * np.minimum(q - p.overlap, 1 - q)
    stencil = [p.free_entropy_at(q + k * h, t) for k in (-2, -1, 1, 2)]
    slope = (stencil[0] - 8 * stencil[1] + 8 * stencil[2] - stencil[3]) / (12 * h)
    np.testing.assert_allclose(2 * slope, t - p.localization_time(q), rtol=1e-7, atol=3e-8 / (1 - p.overlap))


def test_slope_of_the_time_is_the_instability(p):
    q = _overlaps(p)
    h = 0.01 * np.minimum(q - p.overlap, 1 - q)
    times = [p.localization_time(q + k * h) for k in (-2, -1, 1, 2)]
    slope = (times[0] - 8 * times[1] + 8 * times[2] - times[3]) / (12 * h)
    susceptibility = weights_of(p.target.prior).localized(p.conjugate)(q - p.overlap, 1 - q).susceptibility
    np.testing.assert_allclose(slope, (1 - p.instability_at(q)) / susceptibility, rtol=1e-6, atol=1e-8)


def test_quadratures_meet(p):
    """F is smooth where one quadrature hands over to the next."""
    curve = Localization(p._equilibrium)
    y = np.linspace(0.1, 0.5, 25)  # they change at 0.1 and 0.3 of (q - r)/(1 - q)
    # F is what is left of terms of size r̂: their rounding shows
    rounding = np.array([5e-14 * p.conjugate, 1e-12, 1e-12, 1e-12])
    for column, noise in zip(curve.at_depth(y), rounding):
        fit = np.polynomial.Chebyshev.fit(y, column, 14)
        assert np.abs(fit(y) - column).max() < 1e-11 * np.abs(column).max() + noise
    assert curve.accuracy < 1e-10


def test_growth_of_information(p):
    """I-MMSE: the highest φ_t grows at the rate q(t)/2."""
    t, h = 3.0, 1e-3
    top = [p._landscape.maxima(t + k * h)[1].max() for k in (-2, -1, 1, 2)]
    rate = (top[0] - 8 * top[1] + 8 * top[2] - top[3]) / (12 * h)
    depth, height = p._landscape.maxima(t)
    overlap = 1 - p._curve.distances(depth[[np.argmax(height)]])[1][0]
    assert abs(2 * rate - overlap) < 1e-8


def test_load_is_conjugate_to_the_energy(p):
    """dφ/dα = E log Z by the envelope theorem: nothing else moves at a stationary point."""
    if p.overlap == 0:
        pytest.skip("r = 0 at every load")
    h = 1e-4 * p.alpha
    phi = [ss.predict(p.target, p.alpha + k * h).free_entropy for k in (-2, -1, 1, 2)]
    rate = (phi[0] - 8 * phi[1] + 8 * phi[2] - phi[3]) / (12 * h)
    at_rest = equilibrium(p.target, p.conjugate, 0.0).free_entropy
    np.testing.assert_allclose(rate, (p.free_entropy - at_rest) / p.alpha, rtol=1e-7, atol=1e-12)


def test_stabilities_are_a_law(p):
    law = p._equilibrium.law
    assert abs(law.norm - 1) < 1e-11
    s = p.mean_stability + np.array([-0.3, -0.05, 0.2, 0.7])
    s = s[np.abs(s[:, None] - p.target.margin - np.array(p.target.potential.breakpoints or [9.0])).min(axis=1) > 0.02]
    h = 1e-3
    slope = (p.stability_cdf(s + h) - p.stability_cdf(s - h)) / (2 * h)
    np.testing.assert_allclose(slope, p.stability_density(s), rtol=1e-4, atol=1e-6)
    assert p.stability_cdf(law.nodes.min() - 1) < 1e-30
    assert abs(p.stability_cdf(law.nodes.max() + 1) - 1) < 1e-14


def test_stabilities_are_the_last_fields(p):
    """The cavity field becomes the stability as q → 1; and E[s] = E[ω₀ + (1-r) g] = (1-r) E g."""
    from solspace.theory.cavity import kinks, reference_nodes

    if p.overlap < 1e-9:
        assert abs(p.mean_stability - float(p.target.channel(0.0, 1.0)[1])) < 1e-12
        return
    omega, weight = (rows[0] for rows in reference_nodes(kinks(p.target), p.overlap, 1 - p.overlap, 1))
    g = p.target.channel(omega, 1 - p.overlap)[1]
    np.testing.assert_allclose(p.mean_stability, (1 - p.overlap) * (weight @ g), rtol=1e-9, atol=1e-12)


def test_entropy_is_the_legendre_transform_of_the_free_entropy():
    """S = φ - β dφ/dβ."""
    target, alpha, h = ss.Target("binary", "log", 0.5), 0.5, 1e-3
    phi = {k: ss.predict(target.replace(temperature=1 / (2 + k * h)), alpha).free_entropy for k in (-2, -1, 1, 2)}
    rate = (phi[-2] - 8 * phi[-1] + 8 * phi[1] - phi[2]) / (12 * h)
    p = ss.predict(target, alpha)
    assert abs(p.entropy - (p.free_entropy - 2 * rate)) < 1e-10


def test_own_potential_equals_the_closed_form():
    own, known = (ss.predict(ss.Target("binary", u, 0.5), 0.5) for u in (OwnLog(), "log"))
    np.testing.assert_allclose(
        [own.overlap, own.free_entropy, own.replicon, own.entropy, own.mean_stability],
        [known.overlap, known.free_entropy, known.replicon, known.entropy, known.mean_stability],
        rtol=1e-10,
    )
    q = np.array([0.75, 0.9, 0.999])
    np.testing.assert_allclose(own.localization_time(q), known.localization_time(q), rtol=1e-9)


@pytest.mark.parametrize(
    ("power", "temperature", "margin", "alpha", "overlap", "times"),
    # by the trapezoidal rule in every variable, without the package; times at shares 0.3, 0.7, 0.95 of [r, 1]
    [
        (1, 1.0, 0.0, 0.3, 0.431796727866, (0.40952129, 1.46232945, 3.84374782)),
        (1, 0.3, 0.3, 0.2, 0.577243403297, (0.42952691, 1.50955184, 3.99563826)),
        (3, 2.0, -0.3, 0.3, 0.390375439245, (0.4001618, 1.42700945, 3.6964172)),
    ],
)
def test_steep_walls_are_predicted(power, temperature, margin, alpha, overlap, times):
    p = ss.predict(ss.Target("binary", Steep(power), temperature, margin), alpha)
    assert abs(p.overlap - overlap) < 1e-11
    np.testing.assert_allclose(p.localization_time(_overlaps(p, (0.3, 0.7, 0.95))), times, rtol=1e-7)
    assert p.samplable
    assert p.regime(300.0) == "green"
    assert p.status.ok
    assert "fair" in p.summary()


def test_steep_walls_have_thresholds():
    found = ss.thresholds(ss.Target("binary", Steep(1), 1.0))
    assert found.asl < found.dynamical < found.condensation < found.zero_entropy < found.capacity
    before, after = (ss.predict(found.target, found.asl + step).samplable for step in (-1e-3, 1e-3))
    assert before
    assert not after


def test_gaussian_weights_are_solved_by_hand():
    """W = exp(-(s - ½)²) on the sphere: g is linear, so r, φ and F are elementary."""
    p = ss.predict(ss.Target("spherical", Square(), 1.0), 2.0)
    r, v = p.overlap, 1 - p.overlap
    wide = v + 0.5  # Z = N(ω; ½, V + ½) up to a constant
    assert abs(r / v**2 - 2.0 * (r + 0.25) / wide**2) < 1e-10
    log_z = 0.5 * np.log(0.5 / wide) - (r + 0.25) / (2 * wide)
    assert abs(p.free_entropy - (0.5 * np.log(2 * np.pi * v) + 1 / (2 * v) + 2.0 * log_z)) < 1e-12
    q = np.array([0.6, 0.9])
    grown = 1 / (1 - q + 0.5) - 1 / wide  # E_q g² - E_r g² = ∫ dq/(1 - q + ½)²
    assert np.abs(p.localization_time(q) - (1 / (1 - q) - 1 / v - 2.0 * grown)).max() < 1e-9


@settings(max_examples=12)
@given(
    st.sampled_from(["binary", "spherical"]),
    st.sampled_from(["uniform", "log"]),
    st.floats(-6, 2),
    st.floats(-3, 1.3),
    st.floats(-4, -0.05),
)
def test_everywhere(prior, potential, margin, log_temperature, log_load):
    """Right or a sentence, from margin -6 to 2, T from 0.05 to 20, loads from nothing to capacity."""
    from solspace.theory.capacity import gardner

    target = ss.Target(prior, potential, float(np.exp(log_temperature)), margin)
    alpha = gardner(target) * 10**log_load
    if prior == "binary" and log_load > -0.6:  # past where the equations have solutions, for some of them
        with contextlib.suppress(ValueError):
            solve(target, alpha)
        return
    state = solve(target, alpha)
    assert state.status.ok
    curve = Localization(state)
    close = np.array([0.0, 1e-10, 1e-5, 0.1, 2.0, 20.0])
    points = curve.at_depth(close)
    assert all(np.isfinite(column).all() for column in points)
    assert points.time[0] == 0
    np.testing.assert_allclose(points.instability[0], state.replicon, rtol=1e-8)
    # F = F'(r)(q - r) next to r
    gap, _ = curve.distances(close)
    np.testing.assert_allclose(points.time[1], points.slope[0] * gap[1], rtol=1e-6)
    assert curve.accuracy < 1e-7


@pytest.mark.parametrize("margin", [-2.2, -2.5, -2.75, -2.8, -2.9, -3.0, -3.4])
def test_turning_points_are_those_of_the_curve(margin):
    target = ss.Target("spherical", "uniform", margin=margin)
    found = ss.thresholds(target)
    for alpha in np.linspace(0.9 * found.asl, 0.999 * min(found.dat, found.capacity), 5):
        landscape = Landscape(Localization(solve(target, float(alpha))))
        depth, _ = landscape.turning
        np.testing.assert_allclose(landscape.curve.at_depth(depth).instability, 1, atol=1e-7)
        fine = landscape.curve.at_depth(np.linspace(1e-3, landscape.edges[-1], 2000)).instability
        assert len(depth) == np.count_nonzero((fine[1:] < 1) != (fine[:-1] < 1))


def test_thresholds_move_evenly_with_the_margin():
    margins = np.linspace(-3.2, -2.4, 9)
    found = [ss.thresholds(ss.Target("spherical", "uniform", margin=float(margin))) for margin in margins]
    for name in ("asl", "dynamical", "condensation"):
        bend = np.diff(np.log([getattr(one, name) for one in found]), n=2)
        assert (np.abs(bend) < 0.01).all(), (name, bend)
