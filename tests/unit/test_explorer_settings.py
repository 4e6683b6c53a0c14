"""The explorer's settings: what a URL carries, what is refused, and with which words."""

from __future__ import annotations

from dataclasses import fields
from urllib.parse import parse_qsl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from solspace.explorer.settings import CHOICES, NUMBERS, Settings, parse, program, refusal

POTENTIALS = [
    "log",
    "uniform",
    "band(0.8)",
    "wall(-1, 2)",
    "wall(lower=0.5)",
    "tau(0.25)",
    "log_quadratic(1.7308, 1.246)",
    "hinge",
    "errors",
    "logistic(2)",
    "probit(0.1)",
    "flip(0.2)",
]


def values(name):
    """Return a strategy for the values of a setting."""
    if name == "potential":
        return st.sampled_from(POTENTIALS)
    if name in CHOICES:
        return st.sampled_from(list(CHOICES[name].values.values()))
    _, _, low, high = NUMBERS[name]
    return st.integers(low, high) if isinstance(getattr(Settings, name), int) else st.floats(low, high)


any_settings = st.builds(Settings, **{field.name: values(field.name) for field in fields(Settings)})


@given(any_settings)
def test_a_url_carries_every_setting(settings):
    assert Settings.from_query(dict(parse_qsl(settings.query()))) == (settings, [])


def test_defaults_make_an_empty_query():
    assert Settings().query() == ""
    assert Settings.from_query({}) == (Settings(), [])


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("temperature", "0", "T must be at least 0.05; got 0"),
        ("temperature", "-1", "T must be at least"),
        ("temperature", "nan", "must be a number"),
        ("alpha", "0", "α must be at least"),
        ("alpha", "many", "α must be a number; got 'many'"),
        ("alpha", "1/0", "must be a number"),
        ("time", "-0.1", "t must be at least"),
        ("margin", "inf", "must be a number"),
        ("n", "1e9", "N must be an integer of at least 3 and at most 50000"),
        ("n", "10.5", "must be an integer"),
        ("samples", "0", "samples must be an integer"),
        ("potential", "lgo", "did you mean 'log'"),
        ("potential", "band(-1)", "positive"),
        ("prior", "ising", "unknown prior"),
        ("ensemble", "teacher", "unknown ensemble"),
        ("potential", "logistic(0)", "positive"),
        ("potential", "flip(0.6)", "1/2"),
        ("theme", "<script>", "unknown theme"),
    ],
)
def test_nonsense_is_refused_with_a_sentence(name, text, words):
    with pytest.raises(ValueError, match=words.replace("(", r"\(")) as caught:
        parse(name, text)
    assert str(caught.value).endswith(".")
    settings, refused = Settings.from_query({name: text})
    assert settings == Settings()
    assert refused == [str(caught.value)]


def test_a_likelihood_has_temperature_1_unless_another_is_chosen():
    settings, refused = Settings.from_query({"potential": "logistic(2)"})
    assert (settings.temperature, refused) == (1.0, [])
    assert settings.query() == "potential=logistic(2)"
    assert settings.replace("potential", "log") == Settings()
    assert Settings().replace("potential", "probit(1)").temperature == 1.0
    assert Settings(temperature=0.7).replace("potential", "probit(1)").temperature == 0.7


def test_patterns_of_the_user_are_not_planted():
    assert refusal(Settings(ensemble="planted"), shape=(30, 50)) == ""
    assert "planted" not in program(Settings(ensemble="planted"), own_patterns=True)


def test_unknown_fields_of_a_url_are_ignored():
    assert Settings.from_query({"nonsense": "1", "alpha": "0.6"}) == (Settings(alpha=0.6), [])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ""),
        ({"n": 20_000, "alpha": 0.5}, "choose N ≤ 14142"),
        ({"n": 1001, "alpha": 278.0, "prior": "spherical"}, "pattern entries"),
        ({"samples": 256, "n": 50_000, "alpha": 0.03}, ""),
        ({"samples": 256, "n": 5000, "alpha": 4.0}, "at most 250"),
        ({"sampler": "tau", "prior": "gaussian(1)"}, ""),
        ({"sampler": "tau", "prior": "ternary", "potential": "logistic(2)"}, "Choose ASL"),
        ({"sampler": "tempering", "prior": "levels(-3,-1,1,3)", "potential": "logistic(2)"}, ""),
        ({"ensemble": "planted"}, "needs a likelihood"),
        ({"ensemble": "planted", "potential": "uniform", "margin": 0.1}, "margin 0"),
        ({"ensemble": "planted", "potential": "flip(0.1)", "temperature": 0.5}, "temperature 1"),
        ({"ensemble": "planted", "potential": "flip(0.1)", "temperature": 1.0}, ""),
        ({"sampler": "tau", "potential": "uniform"}, "log_band"),
        ({"sampler": "temperature", "potential": "uniform"}, ""),
    ],
)
def test_runs_too_large_or_impossible_are_refused(changes, words):
    said = refusal(Settings(**changes))
    assert words in said
    assert bool(said) == bool(words)


def test_the_largest_allowed_n_is_allowed():
    assert "14142" in refusal(Settings(n=20_000, alpha=0.5))
    assert refusal(Settings(n=14142, alpha=0.5)) == ""


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("sampler", list(CHOICES["sampler"].values.values()))
def test_the_program_says_every_setting_that_matters(sampler, own):
    settings = Settings(sampler=sampler, alpha=0.1234, n=77, samples=5, sweeps=33, seed=6, margin=0.01)
    text = program(settings, own)
    compile(text, "code.py", "exec")
    said = ["margin=0.01", "rng=7", "=5", *(["patterns.npy"] if own else ["alpha=0.1234", "n=77", "rng=6"])]
    said += [] if sampler == "asl" else ["n_sweeps=33"]
    assert all(words in text for words in said)


def test_every_field_has_a_parser():
    for field in fields(Settings):
        value = getattr(Settings(), field.name)
        assert parse(field.name, str(value)) == value
