"""A prediction in words: a table of its numbers, and a paragraph on what they mean."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solspace.numerics.status import Status

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction


def rows(p: Prediction) -> list[tuple[str, str]]:
    """Return the numbers by name, with words for the flags."""
    return [
        ("overlap r", f"{p.overlap:.9g}"),
        ("conjugate r̂", f"{p.conjugate:.9g}"),
        *([("norm conjugate r̂_d", f"{p.norm_conjugate:.9g}")] if p.norm_conjugate is not None else []),
        ("free entropy φ", f"{p.free_entropy:.9g}"),
        ("entropy", f"{p.entropy:.9g}" + ("" if p.populated else "  (negative: no typical samples)")),
        ("capacity", "none" if p.capacity is None else f"{p.capacity:.7g}" + ("" if p.satisfiable else "  (passed)")),
        ("replicon", f"{p.replicon:.6g}" + ("  (stable)" if p.stable else "  (RS unstable)")),
        ("mean stability", f"{p.mean_stability:.6g}"),
    ]


def table(p: Prediction) -> str:
    """Return the numbers, one to a line, and whether localization samples."""
    said = ("localization", "green at all times: samplable" if p.samplable else "not samplable")
    return "\n".join([heading(p), *(f"  {name:<20} {value}" for name, value in (*rows(p), said))])


def heading(p: Prediction) -> str:
    """Return what is predicted, in a line."""
    return f"Prediction for {p.target}, alpha = {p.alpha:g}"


def paragraph(p: Prediction) -> str:
    """Return what the numbers mean."""
    name = str(p.target)
    words = [
        f"{name[0].upper()}{name[1:]}, at alpha = {p.alpha:g}: two independent samples overlap by r = {p.overlap:.4g}."
    ]
    words += _ends(p)
    if not p.stable:
        words.append(
            f"The replica-symmetric solution is unstable (replicon {p.replicon:.3g} > 1): an approximation only."
        )
    if p.samplable:
        words.append("φ_t(q) has a single maximum at every time: sampling by localization is predicted to be fair.")
    elif p.edge().maximum_at_one:
        words.append(f"Sampling by localization is predicted to fail: {p.edge().words}")
    else:
        shown = [f"t = {max(w.low, 0):.4g} to {w.high:.4g}" for w in p.windows if w.high > 0]
        where = f" two maxima compete from {', and from '.join(shown)}" if shown else " it is unstable at small times"
        words.append(f"Sampling by localization is predicted to fail:{where}.")
    if not p.status.ok:
        words.append(doubt(p))
    return " ".join(words)


def doubt(p: Prediction) -> str:
    """Return what keeps the numbers from being trusted, `status` being no good."""
    error = (
        f"accuracy {p.accuracy:.1g}, " if p.status is Status.INACCURATE else "an equation was not solved to the end, "
    )
    return f"{error[0].upper()}{error[1:]}{p.status}"


def _ends(p: Prediction) -> list[str]:
    if not p.satisfiable:
        rest = (
            "the numbers continue the equations only"
            if p.target.potential.hard
            else "samples of this soft measure miss some of them"
        )
        return [f"The load is past capacity ({p.capacity:.4g}): no weights meet all constraints, and {rest}."]
    if not p.populated:
        still = "at every load" if p.capacity is None else f"up to capacity ({p.capacity:.4g})"
        return [
            f"The entropy of this measure is negative: its typical samples end at a smaller load, and the numbers "
            f"continue the equations only. The constraints have solutions {still}."
        ]
    return []
