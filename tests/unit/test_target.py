"""A target is a value: it compares, hashes, prints, travels through JSON, and refuses nonsense in words."""

from __future__ import annotations

import pickle
from dataclasses import dataclass

import numpy as np
import pytest

import solspace as ss
from solspace.measure import potentials

EVERY = ["uniform", "log", "hinge", "errors", "tau(0.3)", "band(0.8)", "log_quadratic(1.7, 1.2)",
         "log_band(0.8)", "wall(lower=-0.4)", "wall(upper=1)", "wall(-0.4, 2)", "tau_wall(-1, 1, 0.5)"]  # fmt: skip


@dataclass(frozen=True)
class Ramp:
    """A potential of a user's own: the weight is s on (0, 2), 2 beyond."""

    slope: float = 1.0
    breakpoints = (0.0, 2.0)

    def log_weight(self, s):
        with np.errstate(divide="ignore"):
            return np.log(np.clip(self.slope * s, 0, 2 * self.slope))


@pytest.mark.parametrize("potential", EVERY)
@pytest.mark.parametrize("prior", ["binary", "spherical"])
@pytest.mark.parametrize("temperature", [0.5, np.inf])
def test_round_trips(potential, prior, temperature):
    target = ss.Target(prior, potential, temperature, margin=-0.3)
    for other in (ss.Target.from_json(target.to_json()), pickle.loads(pickle.dumps(target)), target.replace()):
        assert other == target
        assert hash(other) == hash(target)
        assert repr(other) == repr(target)
    assert target != target.replace(margin=0.1)
    assert potential.split("(")[0] in str(target)


def test_names_objects_and_classes_say_the_same():
    assert ss.Target(potential="band(0.7)") == ss.Target(potential=ss.potentials.Band(0.7))
    assert ss.Target(prior=ss.priors.Spherical) == ss.Target(prior="spherical")
    assert ss.Target(potential=ss.potentials.Log()) == ss.Target()


@pytest.mark.parametrize(
    "text", ["log_quadratic(quadratic=2, linear=1)", "log_quadratic(1, quadratic=2)", " log_quadratic ( 1, 2 ) "]
)
def test_parameters_go_by_name_or_place(text):
    assert ss.Target(potential=text).potential == ss.potentials.LogQuadratic(linear=1.0, quadratic=2.0)


def test_a_target_cannot_be_changed():
    with pytest.raises(AttributeError, match="replace"):
        ss.Target().margin = 1.0


def test_own_potential_registers_and_comes_back():
    potentials.register(Ramp)
    try:
        target = ss.Target(potential=Ramp(2.0))
        assert ss.Target.from_json(target.to_json()) == target
        assert target.potential.hard
        np.testing.assert_array_equal(target.violated([-1.0, 0.0, 1.0]), [True, False, False])
    finally:
        del potentials.REGISTRY["Ramp"]
    with pytest.raises(ValueError, match="unknown potential 'Ramp'"):
        ss.Target.from_json(target.to_json())


def test_infinite_temperature_is_uniform():
    s = np.array([-1.0, 0.5, 2.0])
    for name in ("log", "uniform", "log_quadratic(1, 1)"):
        np.testing.assert_array_equal(ss.Target(potential=name, temperature=np.inf).log_weight(s), [-np.inf, 0, 0])
    for name in ("hinge", "errors", "tau(0.5)"):
        np.testing.assert_array_equal(ss.Target(potential=name, temperature=np.inf).log_weight(s), [0, 0, 0])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"prior": "binray"}, "unknown prior 'binray': did you mean 'binary'"),
        ({"potential": "lgo"}, "unknown potential 'lgo': did you mean 'log'"),
        ({"potential": "band(-1)"}, "width of the band must be a positive number"),
        ({"potential": "tau(2)"}, "tau must be at most 1"),
        ({"potential": "log(1, 2)"}, "too many parameters; log takes no parameters"),
        ({"potential": "band(nonsense=2)"}, "there is no parameter 'nonsense'; band takes width"),
        ({"potential": "log_quadratic(quadratic=1, 2)"}, "quadratic is given twice"),
        ({"potential": "log_quadratic(1, 2, 3)"}, "too many parameters; log_quadratic takes linear, quadratic"),
        ({"potential": "band(width=wide)"}, "width must be a number; got 'wide'"),
        ({"potential": 3}, "potential must be a name or an object"),
        ({"temperature": 0}, "temperature must be positive"),
        ({"temperature": -1}, "temperature must be positive"),
        ({"temperature": float("nan")}, "temperature must be a number"),
        ({"temperature": "warm"}, "temperature must be a number"),
        ({"margin": float("inf")}, "margin must be a finite number"),
    ],
)
def test_nonsense_is_refused_in_words(arguments, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        ss.Target(**arguments)


def test_weights_nowhere_positive_or_not_a_number_are_refused():
    class Nowhere:
        breakpoints = (0.0,)

        def log_weight(self, s):
            return np.full(np.shape(s), -np.inf)

    class Nan(Nowhere):
        def log_weight(self, s):
            return np.full(np.shape(s), np.nan)

    class Scalar(Nowhere):
        def log_weight(self, s):
            return 0.0

    with pytest.raises(ValueError, match="nowhere positive"):
        ss.Target(potential=Nowhere())
    with pytest.raises(ValueError, match="NaN"):
        ss.Target(potential=Nan())
    with pytest.raises(ValueError, match="vectorised"):
        ss.Target(potential=Scalar())


def test_what_a_potential_of_your_own_returns_is_checked_wherever_it_is_evaluated():
    class Own:
        breakpoints = (0.0,)
        flat = False

        def log_weight(self, s):
            weight = np.where(s > 0, np.where(np.abs(s - 0.5) < 0.01, np.nan, 0.0), -np.inf)
            return weight.ravel() if self.flat else weight

    class Flat(Own):
        flat = True

    class Derived(ss.potentials.Potential):
        log_weight = Flat.log_weight
        flat = True

    problem = ss.Perceptron(
        [[1, 1, 1, 1]], target=ss.Target(potential=Own())
    )  # NaN at no stability that it was tried at
    whole = ss.Perceptron([[0.5, 0.2, 0.2, 0.1]], target=problem.target)
    assert problem.enumerate().sample(3, rng=0).shape == (3, 4)
    for use in (ss.Perceptron.enumerate, lambda p: ss.Samples.of(p, np.ones((1, 4), np.int8)).energies()):
        with pytest.raises(ValueError, match=r"Own\.log_weight returned NaN at s = 0\.5"):
            use(whole)
    for wrong in (Flat, Derived):
        with pytest.raises(ValueError, match=f"{wrong.__name__}.log_weight .* shape"):
            ss.Target(potential=wrong())


def test_a_derived_potential_that_is_no_number_is_refused():
    class Quiet(ss.potentials.Potential):
        def log_weight(self, s):
            return np.where(np.asarray(s) == 0.5, np.nan, 0.0)

    problem = ss.Perceptron([[0.5, 0.2, 0.2, 0.1]], target=ss.Target(potential=Quiet()))
    with pytest.raises(ValueError, match="Quiet"):
        problem.enumerate()


def test_the_tau_family_ends_in_the_log_potential():
    s = np.array([0.1, 1.0, 3.0])
    np.testing.assert_allclose(ss.potentials.Tau(1e-9).log_weight(s), np.log(s), atol=1e-8)
    np.testing.assert_array_equal(ss.potentials.Tau(0.0).log_weight(s), np.log(s))
    assert ss.potentials.Tau(0.0).hard
    assert not ss.potentials.Tau(0.1).hard


@pytest.mark.parametrize("potential", EVERY)
@pytest.mark.parametrize(
    ("omega", "variance", "named"),
    [
        (np.nan, 1.0, "omega"),
        (np.inf, 1.0, "omega"),
        ("a", 1.0, "omega"),
        (None, 1.0, "omega"),
        (1j, 1.0, "omega"),
        ([[1.0], [2.0, 3.0]], 1.0, "omega"),
        (0.0, 0.0, "variance"),
        (0.0, np.inf, "variance"),
        (0.0, np.nan, "variance"),
        (0.0, "b", "variance"),
        (np.zeros(3), np.ones(4), r"\(3,\) and \(4,\)"),
    ],
)
def test_a_channel_names_the_bad_argument(potential, omega, variance, named):
    with pytest.raises(ValueError, match=named):
        ss.Target(potential=potential).channel(omega, variance)


@pytest.mark.parametrize("potential", EVERY)
def test_a_channel_of_no_fields_is_empty(potential):
    assert [part.shape for part in ss.Target(potential=potential).channel(np.empty((0, 3)), 1.0)] == [(0, 3)] * 3


class NotANumber(potentials.Potential):
    """A user's subclass that forgot the other side."""

    def log_weight(self, s):
        return np.log(np.asarray(s))


class OneNumber(potentials.Potential):
    """A user's subclass that is not vectorised."""

    def log_weight(self, s):
        return 0.0


class NotANumberSomewhere:
    """A user's potential that is NaN where no probe looks."""

    breakpoints = (0.0,)

    def log_weight(self, s):
        s = np.asarray(s)
        return np.where(np.abs(np.abs(s) - 5**-0.5) < 1e-3, np.nan, 0.0)


@pytest.mark.parametrize("own", [NotANumber, OneNumber, NotANumberSomewhere])
def test_a_weight_that_is_none_is_refused_before_anything_is_sampled(own):
    with pytest.raises(ValueError, match=f"{own.__name__}.log_weight"):
        ss.Perceptron.random(5, 1.0, target=ss.Target(potential=own()), rng=0).enumerate().sample(3, rng=0)
