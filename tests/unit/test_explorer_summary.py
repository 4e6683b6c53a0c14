"""The sentence on top of the page."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qsl

import pytest

from solspace.explorer.curves import curves, numbers, verdict
from solspace.explorer.settings import Settings

GOOD = {
    "alpha": 0.3, "time": 1.0, "regime": "green", "samplable": True, "stable": True, "satisfiable": True,
    "populated": True, "hard": True, "short": False, "takeover": None, "window": None, "overlap": 0.511, "entropy": 0.33,
    "free_entropy": 0.34, "replicon": 0.138,
}  # fmt: skip
THRESHOLDS = {
    "asl": 0.651417, "dat": 0.723902, "dynamical": 0.665258, "condensation": 0.683008, "zero_entropy": 0.683219,
    "capacity": 0.833079,
}  # fmt: skip


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
        (
            {"satisfiable": False, "populated": False, "stable": False},
            "red",
            "No solutions: α = 0.3 is past capacity (0.8331).",
        ),
        (
            {"samplable": False, "populated": False, "takeover": 0.0},
            "red",
            "Theory's typical samples end before α = 0.3: the entropy of this measure vanishes at 0.6832. ASL fails",
        ),
        ({"satisfiable": False, "hard": False}, "green", "ASL works here for all t."),
    ],
)
def test_every_case_has_its_sentence(changes, colour, sentence):
    said = verdict({**GOOD, **changes}, THRESHOLDS)
    assert said.colour == colour
    assert said.sentence.startswith(sentence)


def test_zero_entropy_is_no_end_of_solutions():
    said = verdict({**GOOD, "populated": False, "samplable": False}, THRESHOLDS)
    assert "Solutions there are up to capacity (0.8331); annealing may find them." in said.detail
    soft = verdict({**GOOD, "satisfiable": False, "hard": False}, THRESHOLDS)
    assert "no weights meet all constraints: samples miss some" in soft.detail


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


def toured():
    page = (Path(__file__).parents[2] / "docs" / "howto" / "explore.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `\?([^`]+)` \| \*([^*]+)\* \|", page, re.MULTILINE)
    assert found
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("query", "sentence"), toured())
def test_the_tour_on_the_explorers_page_sees_what_it_says(query, sentence):
    settings, refused = Settings.from_query(dict(parse_qsl(query)))
    assert not refused
    target, ensemble = settings.theory
    facts = curves(target, settings.alpha, settings.time, ensemble)
    assert verdict(facts).sentence == sentence
