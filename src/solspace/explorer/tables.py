"""The numbers of the page, as HTML."""

from __future__ import annotations

from html import escape

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


def numbers(facts: Values | None, thresholds: Values | None) -> str:
    """Return the table of order parameters and thresholds; thresholds still to come are shown as such.

    Where theory has no solution (`facts` is None) the order parameters are shown as dashes.

    >>> "0.5111" in numbers({"overlap": 0.51112, "entropy": .3, "free_entropy": .2, "replicon": .4, "alpha": .3}, None)
    True
    """
    rows = [(label, _number(facts[name]) if facts else "–", name) for name, label in FACTS.items()]
    rows += [
        (label, "computing…" if thresholds is None else _number(thresholds.get(name)), name)
        for name, label in THRESHOLDS.items()
    ]
    return "<table>" + "".join(
        f'<tr{" class=parting" if name == "asl" else ""}><th scope="row">{escape(label)}</th>'
        f'<td data-name="{name}">{escape(value)}</td></tr>'
        for label, value, name in rows
    ) + "</table>"  # fmt: skip


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
