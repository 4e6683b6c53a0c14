"""The verdict on top of the page and the table of numbers, in words."""

from __future__ import annotations

from html import escape
from typing import NamedTuple

from solspace.system.plain import Values

THRESHOLDS = {
    "asl": "α where ASL stops",
    "dynamical": "α d1RSB (dynamical)",
    "condensation": "α static 1RSB",
    "dat": "α dAT",
    "zero_entropy": "α zero entropy",
    "capacity": "α capacity",
}
FACTS = {"overlap": "overlap r", "entropy": "entropy", "free_entropy": "free entropy", "replicon": "replicon"}
_AT_TIME = {
    "green": "At t = {time:.4g} φₜ has one maximum.",
    "yellow": "At t = {time:.4g} φₜ has a second maximum, lower than the first: localization still follows the first.",
    "red": "At t = {time:.4g} the maximum that localization cannot reach is the higher one.",
}


class Verdict(NamedTuple):
    """A colour (green, yellow, red), a sentence on whether ASL works, and details."""

    colour: str
    sentence: str
    detail: str


def verdict(facts: Values, thresholds: Values | None = None) -> Verdict:
    """Return what the facts of a prediction mean, with the thresholds where they are known."""
    known = {name: value for name, value in (thresholds or {}).items() if value is not None}

    def at(name: str, words: str) -> str:
        return words.format(known[name]) if name in known else ""

    alpha, takeover = facts["alpha"], facts["takeover"]
    detail, capacity = _AT_TIME[facts["regime"]].format(time=facts["time"]), at("capacity", " ({:.4g})")
    if not facts["satisfiable"]:
        if facts["hard"]:
            return Verdict("red", f"No solutions: α = {alpha:.4g} is past capacity{capacity}.", "")
        detail += f" Past capacity{capacity} no weights meet all constraints: samples miss some."
    if not facts["populated"]:
        if facts["satisfiable"]:
            detail += f" Solutions there are up to capacity{capacity}; annealing may find them."
        sentence = (
            f"Theory's typical samples end before α = {alpha:.4g}: the entropy of this measure vanishes"
            f"{at('zero_entropy', ' at {:.4g}')}. ASL fails, and the numbers below continue the equations only."
        )
    elif not facts["stable"]:
        sentence = (
            f"Replica symmetry is broken at α = {alpha:.4g}{at('dat', ', past the dAT line at {:.4g}')}: ASL fails, "
            "and the numbers below are an approximation."
        )
    elif facts["samplable"]:
        if known.get("asl", alpha) > alpha:
            detail += at("asl", " ASL goes on working up to α = {:.4g}.")
        return Verdict("green", "ASL works here for all t.", detail)
    elif takeover is None or takeover <= 0:
        sentence = "Another maximum is higher from the start (t = 0): ASL fails."
    else:
        sentence = f"A second maximum takes over at t = {takeover:.3g}: ASL fails."
    return Verdict("red", sentence, detail)


def numbers(facts: Values | None, thresholds: Values | None) -> str:
    """Return an HTML table of order parameters (dashes without `facts`) and thresholds."""
    rows = [(name, label, "–" if facts is None else _number(facts[name])) for name, label in FACTS.items()]
    for name, label in THRESHOLDS.items():
        rows.append((name, label, "computing…" if thresholds is None else _number(thresholds.get(name))))
    return "<table>" + "".join(
        f'<tr{" class=parting" if name == "asl" else ""}><th scope="row">{escape(label)}</th>'
        f'<td data-name="{name}">{escape(value)}</td></tr>'
        for name, label, value in rows
    ) + "</table>"  # fmt: skip


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
