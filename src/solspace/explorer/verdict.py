"""One sentence that says what theory means for whoever wants samples here, and one about the time that is looked at."""

from __future__ import annotations

from typing import NamedTuple

from solspace.system.plain import Values

AT_TIME = {
    "green": "At t = {time:.4g} φₜ has one maximum.",
    "yellow": "At t = {time:.4g} φₜ has a second maximum, lower than the first: localization still follows the first.",
    "red": "At t = {time:.4g} the maximum that localization cannot reach is the higher one.",
}


class Verdict(NamedTuple):
    """A colour (green, yellow, red), the sentence, and a second one about the time t."""

    colour: str
    sentence: str
    detail: str


def verdict(facts: Values, thresholds: Values | None = None) -> Verdict:
    """Return what the facts of a prediction mean; thresholds make it more precise where they are known.

    >>> facts = dict(alpha=278.0, time=0.04, regime="red", samplable=False, stable=True, satisfiable=True,
    ...              populated=True, hard=True, takeover=0.036297, window=(0.020631, 0.047024))
    >>> print(verdict(facts).sentence)
    A second maximum takes over at t = 0.0363: ASL fails.
    >>> verdict({**facts, "samplable": True, "regime": "green", "takeover": None}).sentence
    'ASL works here for all t.'
    """
    known = thresholds or {}
    alpha = facts["alpha"]
    detail = AT_TIME[facts["regime"]].format(time=facts["time"])
    if not facts["satisfiable"] and facts["hard"]:
        return Verdict("red", f"No solutions: α = {alpha:.4g} is past capacity{_at(known.get('capacity'))}.", "")
    if not facts["satisfiable"]:
        detail += f" Past capacity{_at(known.get('capacity'))} no weights meet all constraints: samples miss some."
    if not facts["populated"]:
        sentence = (
            f"Theory's typical samples end before α = {alpha:.4g}: the entropy of this measure vanishes"
            f"{_where(known.get('zero_entropy'))}. ASL fails, and the numbers below continue the equations only."
        )
        still = f" Solutions there are up to capacity{_at(known.get('capacity'))}; annealing may find them."
        return Verdict("red", sentence, detail + (still if facts["satisfiable"] else ""))
    if not facts["stable"]:
        sentence = (
            f"Replica symmetry is broken at α = {alpha:.4g}{_past(known.get('dat'), 'dAT line')}: ASL fails, and the "
            "numbers below are an approximation."
        )
        return Verdict("red", sentence, detail)
    if facts["samplable"]:
        return Verdict("green", "ASL works here for all t.", detail + _room(alpha, known.get("asl")))
    takeover = facts["takeover"]
    if takeover is None or takeover <= 0:
        return Verdict("red", "Another maximum is higher from the start (t = 0): ASL fails.", detail)
    return Verdict("red", f"A second maximum takes over at t = {takeover:.3g}: ASL fails.", detail)


def _at(value: float | None) -> str:
    return "" if value is None else f" ({value:.4g})"


def _where(value: float | None) -> str:
    return "" if value is None else f" at {value:.4g}"


def _past(value: float | None, name: str) -> str:
    return "" if value is None else f", past the {name} at {value:.4g}"


def _room(alpha: float, frontier: float | None) -> str:
    return f" ASL goes on working up to α = {frontier:.4g}." if frontier is not None and frontier > alpha else ""
