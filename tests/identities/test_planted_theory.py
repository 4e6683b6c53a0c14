"""Identities of the theory of planted problems."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import solspace as ss
from solspace.measure.priors import Levels

CASES = {
    "step": (ss.Target(potential="uniform"), 1.0),
    "sphere": (ss.Target("spherical", "flip(0.2)"), 1.5),
    "ternary": (ss.Target("ternary", "probit(0.3)"), 1.2),
    "0, 1": (ss.Target("levels(0,1)", "logistic(2)"), 2.0),
    "unequal": (ss.Target(Levels([-1, 0, 2], [0.2, 0.7, 0.1]), "flip(0.1)"), 0.9),
    "gaussian": (ss.Target("gaussian(2)", "logistic(1)"), 3.0),
}


@pytest.fixture(scope="module", params=CASES)
def p(request):
    return ss.predict(*CASES[request.param], ensemble="planted")


def overlap_of(prior, signal):
    """E[w ⟨w⟩] and E log z of a weight seen with this signal, by an independent quadrature."""
    z = np.linspace(-12, 12, 6001)
    share = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    if isinstance(prior, ss.priors.Gaussian | ss.priors.Spherical):
        v = getattr(prior, "variance", 1.0)
        b = np.sqrt(signal**2 * v + signal) * z
        flat = ss.priors.Gaussian(v)
        return share @ flat.marginals(signal, b)[0] ** 2, share @ flat.log_partition(signal, b)
    values, chances = (-1.0, 1.0), np.ones(2) / 2
    if isinstance(prior, Levels):
        values, chances = prior.values, np.exp(prior.log_weights) / len(prior.values)
    levels = Levels(values, chances)
    b = signal * np.array(values)[:, None] + np.sqrt(signal) * z
    mean, log_z = levels.marginals(signal, b)[0], levels.log_partition(signal, b)
    return (chances * np.array(values)) @ mean @ share, chances @ log_z @ share


def test_equations_of_the_teacher(p):
    """q̂ = α E_ω Σ_y (∂Z_y)²/Z_y, q = E w⁰⟨w⟩ and φ, each by an independent quadrature."""
    q, variance = p.overlap, p.norm - p.overlap
    omega = np.sqrt(q) * np.linspace(-12, 12, 6001)
    share = np.exp(-(omega**2) / (2 * q)) / np.exp(-(omega**2) / (2 * q)).sum()
    both = [p.target.channel(side * omega, variance)[:2] for side in (1, -1)]
    assert abs(share @ sum(np.exp(log_z) for log_z, _ in both) - 1) < 1e-12
    signal = p.alpha * (share @ sum(np.exp(log_z) * g**2 for log_z, g in both))
    energy = p.alpha * (share @ sum(np.exp(log_z) * log_z for log_z, _ in both))
    np.testing.assert_allclose(signal, p.conjugate, rtol=1e-8)
    overlap, log_z = overlap_of(p.target.prior, p.conjugate)
    np.testing.assert_allclose(overlap, q, rtol=1e-8)
    volume = np.log(2 * np.pi * np.e) / 2 if p.target.prior == ss.priors.Spherical() else 0.0
    np.testing.assert_allclose(p.free_entropy, volume - q * p.conjugate / 2 + log_z + energy, atol=1e-9)


def test_curve(p):
    assert p.localization_time(p.overlap) == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(p.free_entropy_at(p.overlap, 0.0), p.free_entropy, rtol=1e-10)
    q = p.least_overlap + (p.norm - p.least_overlap) * np.array([0.1, 0.6, 0.95])
    h = 0.01 * np.minimum(q - p.least_overlap, p.norm - q)
    values = [p.free_entropy_at(q + k * h, 0.4) for k in (-2, -1, 1, 2)]
    slope = (values[0] - 8 * values[1] + 8 * values[2] - values[3]) / (12 * h)
    np.testing.assert_allclose(2 * slope, 0.4 - p.localization_time(q), rtol=1e-6, atol=1e-7)
    times = 0.3 * (1 + 1e-3 * np.array([-2, -1, 1, 2]))
    top = p.free_entropy_at(p.overlap_at(times), times)
    slope = (top[0] - 8 * top[1] + 8 * top[2] - top[3]) / (12 * 0.3e-3)
    np.testing.assert_allclose(slope, p.overlap_at(0.3) / 2, rtol=1e-7)


def test_state_evolution_ends_at_the_posterior(p):
    path = p.state_evolution()
    assert path[0] == p.least_overlap
    assert (np.diff(path) > -1e-12).all()
    assert abs(path[-1] - p.overlap) < 1e-9
    assert not p.hard


def test_entropy_is_that_of_the_law(p):
    """S = φ - α E log P(y|s) - E log P(w), the averages over the teacher."""
    width = np.sqrt(p.norm)

    def energy(s):
        level = float(p.target.log_weight(s))
        return 2 * np.exp(level) * np.nan_to_num(level, neginf=0) * norm.pdf(s, 0, width)

    log_weight = quad(energy, -12 * width, 12 * width, points=[0.0], epsabs=1e-12, limit=200)[0]
    prior = {"gaussian": -np.log(2 * np.pi * np.e * 2) / 2}.get(p.target.prior.name, 0.0)
    if isinstance(p.target.prior, Levels) and p.target.prior.probabilities:
        prior = np.array(p.target.prior.probabilities) @ p.target.prior.log_weights
    np.testing.assert_allclose(p.entropy, p.free_entropy - p.alpha * log_weight - prior, atol=1e-9)


def test_errors():
    step = ss.predict(ss.Target(potential="uniform"), 1.0, ensemble="planted")
    assert step.gibbs_error == pytest.approx(np.arccos(step.overlap) / np.pi)
    assert step.bayes_error == pytest.approx(np.arccos(np.sqrt(step.overlap)) / np.pi, abs=1e-10)
    assert step.posterior_mean_error == pytest.approx(step.bayes_error, abs=1e-10)
    noisy = ss.predict(ss.Target("ternary", "probit(0.4)"), 1.0, ensemble="planted")
    expected = np.arccos(np.sqrt(noisy.overlap / (noisy.norm + 0.16))) / np.pi
    assert noisy.bayes_error == pytest.approx(expected, abs=1e-10)
    known = ss.predict(ss.Target(potential="flip(0.1)"), 4.0, ensemble="planted")
    assert known.bayes_error == pytest.approx(0.1, abs=1e-10)
    assert (known.overlap, known.gibbs_error, known.conjugate) == (1, 0, np.inf)


def test_hard_region_of_the_step_teacher():
    """Between the two loads the posterior is the teacher, and AMP stops short of it."""
    target = ss.Target(potential="uniform")
    p = ss.predict(target, 1.35, ensemble="planted")
    assert (p.overlap, p.free_entropy, p.hard) == (1, 0, True)
    assert abs(p.state_evolution()[-1] - p.message_passing_overlap) < 1e-9
    assert p.message_passing_overlap == pytest.approx(0.756463, abs=1e-6)
    assert "hard region" in p.summary()
    assert p.regime(0.0) == "red"
    found = ss.thresholds(target, ensemble="planted")
    for load, low, high in ((found.information, False, True), (found.spinodal, True, False)):
        sides = [ss.predict(target, load + step, ensemble="planted").hard for step in (-1e-5, 1e-5)]
        assert sides == [low, high]
    assert ss.predict(target, found.spinodal + 1e-4, ensemble="planted").state_evolution()[-1] == 1


def test_thresholds_of_little_noise():
    """With noise .1, all three loads are there: a window opens at t > 0, reaches t = 0, and closes."""
    target = ss.Target(potential="probit(0.1)")
    found = ss.thresholds(target, ensemble="planted")
    assert found.localization < found.information < found.spinodal
    edges = [ss.predict(target, found.localization + step, ensemble="planted") for step in (-1e-5, 1e-5)]
    assert [p.samplable for p in edges] == [True, False]
    assert edges[1].windows[0].low == pytest.approx(found.cusp_time, abs=1e-3)
    at = ss.predict(target, found.information, ensemble="planted")
    low, high = (float(at.overlap_at(0.0, start=start)) for start in ("low", "high"))
    assert high - low > 0.05
    assert at.free_entropy_at(low, 0.0) == pytest.approx(at.free_entropy_at(high, 0.0), abs=1e-9)
    diagram = ss.phase_diagram(target, [1.2, 1.4, 1.55], [0.0, 0.38, 0.45], progress=False, ensemble="planted")
    assert diagram.regimes.T.tolist() == [["green"] * 3, ["green", "yellow", "red"], ["red", "green", "green"]]
    assert ss.thresholds(target.replace(potential="probit(0.3)"), ensemble="planted").to_dict()["spinodal"] is None


def test_sphere_and_gaussian_weights_have_one_posterior():
    sphere, real = (
        ss.predict(ss.Target(prior, "flip(0.1)"), 2.0, ensemble="planted") for prior in ("spherical", "gaussian(1)")
    )
    np.testing.assert_allclose(real.overlap, sphere.overlap, rtol=1e-10)
    np.testing.assert_allclose(sphere.free_entropy - real.free_entropy, np.log(2 * np.pi * np.e) / 2, rtol=1e-10)


@pytest.mark.parametrize("target", [ss.Target(), ss.Target(potential="probit(1)", temperature=0.9),
                                    ss.Target(potential="flip(0.1)", margin=0.1), ss.Target(potential="band(1)")])  # fmt: skip
def test_what_has_no_teacher(target):
    for call in (ss.predict, ss.phase_diagram):
        with pytest.raises(ValueError, match="likelihood"):
            call(target, [1.0] if call is ss.phase_diagram else 1.0, ensemble="planted")
    with pytest.raises(ValueError, match="likelihood"):
        ss.thresholds(target, ensemble="planted")
    with pytest.raises(ValueError, match="ensemble"):
        ss.predict(target, 1.0, ensemble="teacher")
