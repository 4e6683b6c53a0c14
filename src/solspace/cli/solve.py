"""`solspace solve`: any solution of a problem, as far as methods reach."""

from __future__ import annotations

import warnings
from pathlib import Path

import solspace as ss
from solspace.cli import problem as inputs
from solspace.cli.options import AS_JSON, MARGIN, POTENTIALS, Rule, option, verb
from solspace.cli.output import Table, fail, make_room, say, show, write_json
from solspace.cli.problem import ProblemOptions, about
from solspace.info import SolvingInfo
from solspace.numerics.streams import child, generator, seed_sequence
from solspace.samplers.constraints import flat, tie
from solspace.samplers.device import resolve
from solspace.samplers.solving.solve import Search, SolveConfig
from solspace.system.checks import whole

FILES = ("solutions.npz", "report.json")
RULES = (
    *inputs.RULES,
    Rule("intercept", lambda o: False, "belongs to solspace sample: solve takes problems without an intercept"),
    Rule(
        "solutions method time_limit", lambda o: not o.count, "has no effect with --count, which looks for no solution"
    ),
    Rule("device", lambda o: o.method != "exact" or o.device != "gpu", "gpu cannot be had with --method exact"),
)


@verb(*RULES)
def solve(
    config: SolveConfig,
    stated: ProblemOptions,
    solutions: int = option(1, "How many, different from each other.", check=whole(1)),
    seed: int = option(0, "Another seed, other solutions.", check=whole(0)),
    count: bool = option(False, "Deprecated: `solspace count`."),
    potential: str = option(
        "uniform", "uniform: stabilities of at least the margin; band(width): |s| up to a width.", offer=POTENTIALS
    ),
    margin: float = MARGIN,
    out: Path = option(Path("."), "Folder for solutions.npz and report.json; for report.json alone with --count."),
    as_json: bool = AS_JSON,
) -> None:
    """Find ±1 weights that meet every constraint: a table, `solutions.npz` and `report.json`.

    With no options: a random instance of 1001 weights at load 0.7. Solutions found so follow no known law; for fair ones
    there is `solspace sample`. The exit code is 0 only if all requested solutions were found. Otherwise the weights that miss
    the fewest constraints are kept, and it says how many those are and what theory says of that load.
    """
    resolve(config.device)
    make_room(out, FILES)
    target, rng = ss.Target(potential=potential, margin=margin), generator(seed, 0)
    problem, notes = stated.build(target, rng, n=1001, alpha=0.7, quiet=as_json)
    if count:
        from solspace.cli.count import show_count

        say("solve --count is deprecated and ends with 0.4: use solspace count.")
        show_count(problem, None, out, as_json, notes, seed)
        return
    samples, stopped = _search(problem, solutions, seed, config, quiet=as_json)
    info, solved = samples.info, int(samples.solved.sum())
    assert isinstance(info, SolvingInfo)
    search = {name: value for name, value in info.to_dict().items() if name not in ("sampler", "wall_time")}
    report = {"problem": about(problem), "solutions": len(samples), "solved": solved, **search, **notes}
    samples.save(out / FILES[0])
    write_json(out / FILES[1], report)
    rows = [
        ("solutions found", f"{solved}/{len(samples)}"),
        ("unmet constraints", ", ".join(map(str, info.unmet.tolist()))),
        ("found by", info.method) if solved else ("tried", ", ".join(info.tried)),
        ("iterations", f"{info.iterations:,}"),
        ("further runs", str(info.restarts)),
        ("seconds", f"{info.seconds:.2f}"),
    ]
    parts: list[Table | str] = [Table(str(problem), rows, ("", "value")), f"{info.words}." if solved else ""]
    show(report, parts, as_json, f"wrote {FILES[0]} and {FILES[1]} to {out}")
    if solved < len(samples):
        fail(_shortfall(problem, samples, info, stopped), code=130 if stopped else 1)


def _search(
    problem: ss.Perceptron, solutions: int, seed: int, config: SolveConfig, quiet: bool
) -> tuple[ss.Samples, bool]:
    """Return what the search found, and whether Ctrl-C ended it."""
    seen: list[Search] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is missing is said below, with the exit code
            rng, progress = child(seed_sequence(seed), 1), False if quiet else None
            return ss.solve(problem, solutions, rng, **vars(config), progress=progress, callback=seen.append), False
    except KeyboardInterrupt:
        if not seen:
            raise
        return seen[-1].samples("it was stopped"), True


def _shortfall(problem: ss.Perceptron, samples: ss.Samples, info: SolvingInfo, stopped: bool) -> str:
    missing = f"{int((~samples.solved).sum())} of {len(samples)} solutions" if len(samples) > 1 else "no solution"
    lead = f"{missing} not found" if len(samples) > 1 else "no solution found"
    if stopped:
        lead = f"stopped; {missing} found"
    best = f"at best {int(info.unmet[~samples.solved].min())} of {problem.m} constraints are unmet"
    doubt, _ = tie(problem)
    why = info.impossible or (doubt and f"{doubt}, and none were found.") or _theory(problem)
    return f"{lead}: {best}. {why[0].upper()}{why[1:]}"


def _theory(problem: ss.Perceptron) -> str:
    from solspace.theory.capacity import capacity

    if structure := problem.structure():
        return f"There is no theory for these patterns ({structure})."
    try:
        limit = capacity(flat(problem.target))
    except ValueError:
        limit = None
    if limit is None:
        return "Theory knows no capacity of these constraints."
    if problem.alpha > limit:
        return f"Theory: random patterns have no solutions beyond α = {limit:.3f}, and α is {problem.alpha:.3g}."
    return (
        f"Theory: random patterns at α = {problem.alpha:.3g} have solutions, which end at {limit:.3f}; algorithms are known to "
        f"stop near nine tenths of that ({0.9 * limit:.2f}). Below, a longer --time-limit or another --seed may help."
    )
