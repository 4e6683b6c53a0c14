"""`solspace count`: how many solutions a problem has, with an interval."""

from __future__ import annotations

from pathlib import Path

import solspace as ss
from solspace.cli import problem as inputs
from solspace.cli.options import AS_JSON, MARGIN, POTENTIALS, TEMPERATURE, option, registered, verb
from solspace.cli.output import Table, fail, make_room, show, write_json
from solspace.cli.problem import ProblemOptions, about
from solspace.counting.count import METHODS, counted, prepared
from solspace.counting.result import Count
from solspace.numerics.streams import child, generator, seed_sequence
from solspace.system import progress as bars
from solspace.system.checks import number, one_of, optional, whole
from solspace.system.plain import Values

FILE = "report.json"


@verb(*inputs.RULES, TEMPERATURE)
def count(
    stated: ProblemOptions,
    method: str = option(
        "auto",
        "exact, epar, smc, ep, or auto: exact where it is quick, else epar.",
        check=one_of(METHODS),
        offer=lambda: METHODS,
    ),
    confidence: float = option(0.95, "Confidence of the interval.", check=number(positive=True, most=0.999999)),
    time_limit: float | None = option(
        None, "Seconds after which the result so far is shown.", check=optional(number(positive=True))
    ),
    seed: int = option(0, "Another seed, another instance and other draws.", check=whole(0)),
    prior: str = option(
        "binary", "binary, ternary, levels(-3,-1,1,3), ...", offer=registered("solspace.measure.priors")
    ),
    potential: str = option("uniform", "uniform and band(K): solutions are counted; others: log Z.", offer=POTENTIALS),
    temperature: float = option(0.5, "T of log Z."),
    margin: float = MARGIN,
    out: Path = option(Path("."), "Folder for report.json."),
    as_json: bool = AS_JSON,
) -> None:
    """Count the solutions of a problem, with an interval; under other potentials, compute log Z.

    With no options: a random instance of 101 weights at load 0.3. Ctrl-C shows the interval so far. Counts are exact to about
    40 weights; intervals end at about 100 weights at loads to 0.6, and 200 at 0.3.
    """
    make_room(out, (FILE,))
    target = ss.Target(prior, potential, temperature, margin)
    problem, notes = stated.build(target, generator(seed, 0), n=101, alpha=0.3, quiet=as_json)
    show_count(problem, target, out, as_json, notes, seed, confidence, method, time_limit)


def show_count(
    problem: ss.Perceptron, target: ss.Target | None, out: Path, as_json: bool, notes: Values, seed: int = 0,
    confidence: float = 0.95, method: str = "auto", time_limit: float | None = None,
) -> None:  # fmt: skip
    """Count, print the result beside theory, and write `report.json` to the folder `out`."""
    free, config = prepared(problem, target, confidence, method, time_limit)
    found: Count | None = None
    stopped = False
    try:
        with bars.progress(1.0, "counting", False if as_json else None) as bar:
            for share, found in counted(free, config, child(seed_sequence(seed), 1)):
                bar.advance(max(0.0, share - bar.done), f"log {found.log:.2f}")
    except KeyboardInterrupt:
        if found is None:
            raise
        stopped = True
    assert found is not None
    theory = _theory(problem, found)
    report = {**about(problem), **found.to_dict(), "stopped": stopped, "theory": theory, **notes}
    write_json(out / FILE, report)
    rows = [("log of the number" if found.solutions else "log Z", str(found)), ("found by", found.method)]
    if found.effective_samples is not None:
        rows.append(("effective samples", f"{found.effective_samples:.0f}"))
    if theory is not None:
        rows.append(("theory, n → ∞", f"{theory:.2f}"))
    rows.append(("seconds", f"{found.seconds:.2f}"))
    show(report, [Table(str(problem), rows, ("", "value")), f"{found.status}."], as_json, f"wrote {FILE} to {out}")
    if stopped:
        fail("stopped; the result is that of the draws so far.", code=130)


def _theory(problem: ss.Perceptron, found: Count) -> float | None:
    """Return n times the replica-symmetric entropy, or free entropy where log Z is computed; None where there is no theory."""
    if problem.structure() or not problem.plain:
        return None
    try:
        prediction = ss.predict(found.target, problem.alpha)
    except (ValueError, ArithmeticError):
        return None
    return problem.n * (prediction.entropy if found.solutions else prediction.free_entropy)
