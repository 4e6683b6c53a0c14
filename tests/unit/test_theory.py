"""Shapes, errors, words and plain values of the theory's objects."""

import importlib
import json
import pickle

import numpy as np
import pytest
from scipy.special import erfc

import solspace as ss
from solspace.theory.capacity import capacity, gardner, one_step

pytestmark = pytest.mark.slow

SPHERE = ss.Target("spherical", "uniform", margin=-2.5)


@pytest.fixture(scope="module")
def p():
    return ss.predict(ss.Target(), 0.5)


def test_shapes(p):
    q = np.linspace(p.overlap, 1, 6).reshape(2, 3)
    for method in (p.localization_time, p.instability_at, lambda x: p.free_entropy_at(x, 1.0), p.stability_density):
        assert method(q).shape == (2, 3)
        assert np.isscalar(method(0.8)) or np.ndim(method(0.8)) == 0
    assert p.free_entropy_at(q[:, None, :], np.zeros((4, 1))).shape == (2, 4, 3)
    assert p.overlap_at(np.ones((2, 2))).shape == (2, 2)
    assert p.regime(np.ones((2, 2))).shape == (2, 2)
    assert isinstance(p.regime(1.0), str)
    assert p.stability_cdf([[0.0, 1.0]]).shape == (1, 2)
    assert p.overlap_at([]).shape == (0,)


@pytest.mark.parametrize("alpha", [0, -1.0, np.nan, np.inf, "many", None])
def test_alpha_must_be_a_load(alpha):
    with pytest.raises(ValueError, match="alpha must be"):
        ss.predict(ss.Target(), alpha)


def test_arguments_are_checked(p):
    with pytest.raises(ValueError, match="target must be"):
        ss.predict("binary", 0.3)
    with pytest.raises(ValueError, match="reference overlap r ="):
        p.localization_time(p.overlap - 0.1)
    with pytest.raises(ValueError, match="reference overlap r ="):
        p.free_entropy_at(1.1, 0.0)
    with pytest.raises(ValueError, match="t must be a finite time"):
        p.overlap_at(-0.1)
    with pytest.raises(ValueError, match="NaN"):
        p.stability_density([np.nan])
    with pytest.raises(ValueError, match="'low' or 'high'"):
        p.overlap_at(1.0, start="middle")
    with pytest.raises(ValueError, match="one-dimensional"):
        ss.phase_diagram(ss.Target(), 0.5, [0.0])
    with pytest.raises(ValueError, match="at least 0"):
        ss.phase_diagram(ss.Target(), [0.5], [-1.0])


def test_no_solution_past_capacity():
    with pytest.raises(ValueError, match=r"no replica-symmetric solution at alpha = 2\.1"):
        ss.predict(ss.Target("spherical", "uniform"), 2.1)
    diagram = ss.phase_diagram(ss.Target("spherical", "uniform"), [1.0, 2.1], [0.0, 1.0])
    assert diagram.regimes.T.tolist() == [["green", "green"], ["none", "none"]]
    assert "no replica-symmetric solution" in diagram.notes[0]
    assert diagram.codes.T.tolist() == [[0, 0], [-1, -1]]


def test_flags_and_words():
    past = ss.predict(ss.Target("binary", "uniform"), 0.9)
    assert past.stable
    assert not past.satisfiable
    assert not past.populated
    assert "past capacity" in past.summary()
    tilted = ss.predict(ss.Target(), 0.7)  # past zero entropy of the measure, below capacity of the constraints
    assert tilted.satisfiable
    assert tilted.entropy < 0
    assert not tilted.populated
    assert "negative: no typical samples" in repr(tilted)
    assert "solutions up to capacity (0.8331)" in tilted.summary()
    unstable = ss.predict(ss.Target("spherical", "uniform", margin=-1.0), 9.0)
    assert not unstable.stable
    assert unstable.satisfiable
    assert not unstable.samplable
    assert "unstable" in unstable.summary()
    assert "RS unstable" in repr(unstable)
    assert unstable.regime(0.0) == "red"
    between = ss.predict(ss.Target("spherical", "uniform", margin=-1.0), 12.8)  # past 1RSB, below Gardner
    assert not between.satisfiable
    fine = ss.predict(ss.Target(), 0.3)
    assert "predicted to be fair" in fine.summary()
    soft = ss.predict(ss.Target("spherical", "hinge", 0.5), 3.0)
    assert not soft.satisfiable
    assert soft.populated
    assert soft.samplable
    assert "samples of this soft measure miss some" in soft.summary()


def test_small_loads():
    for target in (ss.Target(), ss.Target("spherical", "uniform", margin=-6.0), ss.Target("binary", "band(1.0)")):
        p = ss.predict(target, 1e-9)
        assert 0 <= p.overlap < 1e-8
        assert np.isfinite([p.free_entropy, p.entropy, p.mean_stability]).all()
        assert np.isfinite(p.localization_time([p.overlap, 0.5])).all()
        assert np.isfinite(p.overlap_at([0.0, 1.0, 50.0])).all()


def test_large_times(p):
    q = p.overlap_at([0.0, 10.0, 100.0, 1e4])
    assert q[0] == p.overlap
    assert (np.diff(q) >= 0).all()
    assert q[-1] == 1.0
    sphere = ss.predict(SPHERE, 50).overlap_at([1e3, 1e6, 1e9])
    np.testing.assert_allclose(1 - sphere, [1e-3, 1e-6, 1e-9], rtol=0.05)


def test_plain_values(p):
    found = ss.phase_diagram(SPHERE, [200, 278], [0.0, 0.03])
    objects = (p, ss.thresholds(ss.Target("binary", "uniform")), found, ss.sampling_map(SPHERE, [-1.0]), p.edge())
    for thing in objects:
        text = json.dumps(thing.to_dict(), allow_nan=False)
        assert json.loads(text)
        assert repr(thing)
    assert found.to_dict()["maxwell"][0] is None


def test_thin_windows_are_in_the_lines():
    diagram = ss.phase_diagram(SPHERE, [278.0], [0.05, 0.15])
    assert (diagram.regimes == "green").all()
    assert not diagram.samplable[0]
    np.testing.assert_allclose(diagram.maxwell, 0.036297, atol=1e-6)


def test_diagram_agrees_with_predictions():
    target = ss.Target("binary", "uniform")
    times = np.array([0.0, 1.0, 2.5, 4.0])
    diagram = ss.phase_diagram(target, [0.3, 0.6], times, progress=False)
    for k, alpha in enumerate(diagram.alphas):
        assert diagram.regimes[:, k].tolist() == ss.predict(target, alpha).regime(times).tolist()


def test_map_has_every_line():
    found = ss.sampling_map(ss.Target("spherical", "uniform"), [-2.2, -1.5, 0.5])
    assert found.asl_by == ("cusp", "dAT", "capacity")
    assert abs(found.tricritical + 2.04312) < 1e-5
    assert np.isnan(found.dat[2])
    assert found.asl[2] == found.capacity[2] == gardner(ss.Target("spherical", "uniform", margin=0.5))
    assert (found.capacity_1rsb <= found.capacity_rs).all()


def test_capacities():
    for margin in (0.0, 0.7):
        target = ss.Target("spherical", "log", margin=margin)
        assert one_step(target) == gardner(target)
    assert gardner(ss.Target("spherical", "uniform")) == pytest.approx(2.0, rel=1e-14)
    assert capacity(ss.Target("spherical", "hinge")) == 2.0
    assert capacity(ss.Target("spherical", "band(1.0)")) > 0


class Outside:
    """A user's potential: uniform on abs(s) >= width."""

    def __init__(self, width):
        self.width, self.breakpoints = width, (-width, width)

    def log_weight(self, s):
        return np.where(np.abs(s) >= self.width, 0.0, -np.inf)


class Below:
    """A user's potential: uniform on s <= 0.5."""

    breakpoints = (0.5,)

    def log_weight(self, s):
        return np.where(np.asarray(s) <= 0.5, 0.0, -np.inf)


@pytest.mark.parametrize("width", [0.3, 0.5, 0.7])
def test_constraints_outside_a_band_have_a_capacity(width):
    target = ss.Target(potential=Outside(width), temperature=0.7)
    expected = np.log(2) / -np.log(erfc(width / np.sqrt(2)))
    assert abs(capacity(target) / expected - 1) < 1e-9
    found = ss.thresholds(target)
    assert abs(found.capacity / found.zero_entropy - 1) < 1e-9
    assert ss.predict(target, 0.9 * expected).satisfiable
    assert not ss.predict(target, 1.1 * expected).satisfiable
    beside = target.replace(margin=0.2)
    assert abs(capacity(beside) / ss.thresholds(beside).zero_entropy - 1) < 1e-7


def test_own_constraints_from_above_are_those_of_a_wall():
    own, wall = (ss.Target(potential=u) for u in (Below(), "wall(upper=0.5)"))
    np.testing.assert_array_equal(own.violated([-1.0, 0.0, 0.4, 0.5, 1.0]), wall.violated([-1.0, 0.0, 0.4, 0.5, 1.0]))
    assert capacity(own) == capacity(wall)


def test_families_of_design():
    with pytest.raises(ValueError, match="did you mean 'log'"):
        ss.design("lgo")
    with pytest.raises(ValueError, match="no parameters to choose"):
        ss.design("uniform")
    with pytest.raises(ValueError, match="needs finite bounds"):
        ss.design(ss.potentials.Band)
    with pytest.raises(ValueError, match="unknown parameter"):
        ss.design("log", bounds={"heat": (0.1, 1.0)})
    with pytest.raises(ValueError, match="no load can be sampled"):
        ss.design("log", initial={"temperature": 1.5}, bounds={"temperature": (1.2, 3.0)})


def test_design_of_an_own_family():
    class Power:
        """W = s^power."""

        initial = {"power": 1.2}  # noqa: RUF012
        bounds = {"power": (1.1, 3.0)}  # noqa: RUF012
        breakpoints = (0.0,)

        def __init__(self, power):
            self.power = power

        def log_weight(self, s):
            s = np.asarray(s, dtype=float)
            return np.where(s > 0, self.power * np.log(np.where(s > 0, s, 1.0)), -np.inf)

        def channel(self, omega, variance, beta):
            from solspace.measure.channels import power_channel

            return power_channel(omega, variance, beta * self.power)

    best = ss.design(Power, margin=0.0, progress=False)
    assert abs(best.parameters["power"] - 1 / 0.711) < 0.02
    assert abs(best.alpha_asl - 0.66695) < 1e-5


def test_a_prediction_is_a_value(p):
    with pytest.raises(AttributeError, match="cannot be changed"):
        p.alpha = 0.1
    p.localization_time(0.9)
    again = pickle.loads(pickle.dumps(p))
    assert (again.overlap, again.target) == (p.overlap, p.target)
    assert again.localization_time(0.9) == p.localization_time(0.9)


@pytest.mark.slow
def test_poor_integrals_are_noticed():
    """A potential that hides its wall: the solver sees E_q[1] fail and says so."""

    class Hidden:
        breakpoints = (7.0,)

        def log_weight(self, s):
            return np.where(np.asarray(s) < 0, -np.inf, 0.0)

        def channel(self, omega, variance, beta):
            from solspace.measure.channels import power_channel

            return power_channel(omega, variance, 0.0)

    p = ss.predict(ss.Target("binary", Hidden()), 0.5)
    assert p.status.ok
    assert abs(p.localization_time(0.9) - 1.9903159465) < 1e-8  # still smooth there
    p.localization_time(1 - 1e-6)
    assert not p.status.ok
    assert p.accuracy > 1e-4
    assert "breakpoints" in p.summary()


@pytest.mark.parametrize("where", ["reference", "localization"])
def test_an_unsolved_equation_is_told(monkeypatch, where):
    """A search for a root that ran out of steps reaches the summary, the plain values and the diagram's notes."""
    module = importlib.import_module(f"solspace.theory.{where}")
    search = module.bracketed_newton
    monkeypatch.setattr(module, "bracketed_newton", lambda *a, **k: search(*a, **{**k, "max_steps": 1}))
    p = ss.predict(ss.Target(), 0.66)
    if where == "localization":
        assert p.status.ok
        assert p.windows  # asks for roots
    assert not p.status.ok
    assert p.accuracy < 1e-8
    for words in (p.summary(), *ss.phase_diagram(ss.Target(), [0.66], [0.0]).notes):
        assert "n equation was not solved to the end, the iteration did not settle" in words
    assert "did not settle" in p.to_dict()["status"]


def test_roots_at_zero_are_found():
    """r̂ = 1 is log r̂ = 0: no relative size to go by."""
    from solspace.theory.reference import equilibrium, solve

    target = ss.Target()
    state = solve(target, equilibrium(target, 1.0).alpha)
    assert state.status.ok
    assert abs(state.conjugate - 1) < 1e-12


class Slab(ss.priors.Prior):
    name = "slab"


def test_theory_of_a_users_prior():
    """Without its half of the equations it gets a sentence; with them, or as a kind of ±1 weights, a prediction."""
    from solspace.theory.weights import BinaryWeights

    with pytest.raises(NotImplementedError, match=r"replica theory needs a method reference\(conjugate\) of Slab"):
        ss.predict(ss.Target(Slab()), 0.3)

    class Bits(ss.priors.Binary):
        pass

    class Brings(Slab):
        reference, localized = BinaryWeights().reference, BinaryWeights().localized

    expected = ss.predict(ss.Target(), 0.3)
    for prior in (Bits(), Brings()):
        p = ss.predict(ss.Target(prior), 0.3)
        assert p.overlap == expected.overlap
        assert p.populated
        assert p.capacity == expected.capacity


def test_a_diagram_chooses_its_times():
    diagram = ss.phase_diagram(ss.Target(), [0.3, 0.66])
    assert len(diagram.times) == 51
    assert diagram.times[0] == 0
    assert diagram.times[-1] == pytest.approx(1.25 * diagram.spinodal_high[1])
    assert set(diagram.regimes[:, 1]) == {"green", "yellow", "red"}
    assert ss.phase_diagram(ss.Target(), [0.3]).times[-1] == 2.0


def test_what_happens_near_overlap_one_is_a_whole_sentence():
    words = str(ss.predict(ss.Target("binary", "log", temperature=0.5), 0.5).edge())
    assert words.startswith("As q → 1, dG_E/dq tends to 10.826 and stays below the weights' own term 2 log 1/(1-q): ")
