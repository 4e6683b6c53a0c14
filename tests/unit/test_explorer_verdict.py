"""The sentence on top of the page."""

from __future__ import annotations

import pytest

from solspace.explorer.tables import numbers
from solspace.explorer.verdict import verdict

GOOD = {
    "alpha": 0.3, "time": 1.0, "regime": "green", "samplable": True, "stable": True, "satisfiable": True,
    "takeover": None, "window": None, "overlap": 0.511, "entropy": 0.33, "free_entropy": 0.34, "replicon": 0.138,
}  # fmt: skip
THRESHOLDS = {"asl": 0.651417, "dat": 0.723902, "dynamical": 0.665258, "condensation": 0.683008, "capacity": 0.7301}


@pytest.mark.parametrize(
    ("changes", "colour", "sentence"),
    [
        ({}, "green", "ASL works here for all t."),
        ({"samplable": False, "takeover": 0.036297}, "red", "A second maximum takes over at t = 0.0363: ASL fails."),
        ({"samplable": False, "takeover": 0.0}, "red", "Another maximum is higher from the start (t = 0): ASL fails."),
        (
            {"samplable": False, "stable": False},
            "red",
            "Replica symmetry is broken at α = 0.3, past the dAT line at 0.7239",
        ),
        ({"satisfiable": False, "stable": False}, "red", "No typical solutions: α = 0.3 is past capacity (0.7301)."),
    ],
)
def test_every_case_has_its_sentence(changes, colour, sentence):
    said = verdict({**GOOD, **changes}, THRESHOLDS)
    assert said.colour == colour
    assert said.sentence.startswith(sentence)


@pytest.mark.parametrize("regime", ["green", "yellow", "red"])
def test_the_time_has_its_own_sentence(regime):
    assert "t = 1" in verdict({**GOOD, "regime": regime}).detail


def test_thresholds_add_what_they_know():
    assert "up to α = 0.6514" in verdict(GOOD, THRESHOLDS).detail
    assert "up to" not in verdict(GOOD, None).detail


def test_numbers_are_shown_or_said_to_come():
    table = numbers(GOOD, THRESHOLDS)
    assert "0.651417" in table
    assert "0.511" in table
    assert "computing" in numbers(GOOD, None)
    assert "none" in numbers(GOOD, {**THRESHOLDS, "asl": None})
