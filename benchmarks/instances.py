"""A public set of instances, and a command that scores what any other tool found on them.

    python -m benchmarks.instances                        the instances, with the best results known
    python -m benchmarks.instances export NAME FOLDER     patterns.npy (labels folded in) and instance.json
    python -m benchmarks.instances score NAME FILE        FILE: weights.npy (k, n), or a number, the log of a count
    python -m benchmarks.instances best                   measure the last column anew (minutes)

Solving: every row of the weights is checked from the patterns. Sampling: `ss.diagnose` judges the rows against theory, as
independent samples. Counting: the natural logarithm of the number of solutions, compared with an exact count or an interval.
"""

from __future__ import annotations

import argparse
import csv
import json
import sys
import time
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np

import solspace as ss

FILE = Path(__file__).with_name("instances.csv")


@dataclass(frozen=True)
class Instance:
    """A row of the table: `Perceptron.random(n, alpha, target, patterns, rng=seed)`, and the best result known."""

    name: str
    task: str
    n: int
    alpha: float
    patterns: str
    prior: str
    potential: str
    temperature: float
    margin: float
    seed: int
    best: str

    @property
    def target(self) -> ss.Target:
        return ss.Target(self.prior, self.potential, self.temperature, self.margin)

    def problem(self) -> ss.Perceptron:
        return ss.Perceptron.random(self.n, self.alpha, self.target, self.patterns, rng=self.seed)


def read() -> dict[str, Instance]:
    with FILE.open(newline="", encoding="utf-8") as stream:
        kinds: dict[str, Any] = {
            one.name: {"int": int, "float": float}.get(str(one.type), str) for one in fields(Instance)
        }
        rows = [Instance(**{name: kinds[name](value) for name, value in row.items()}) for row in csv.DictReader(stream)]
    return {row.name: row for row in rows}


def write(instances: list[Instance]) -> None:
    with FILE.open("w", newline="", encoding="utf-8") as stream:
        table = csv.DictWriter(stream, [one.name for one in fields(Instance)], lineterminator="\n")
        table.writeheader()
        table.writerows(map(asdict, instances))


def export(instance: Instance, folder: Path) -> None:
    """Write the patterns, labels folded in, and what is known of the instance."""
    folder.mkdir(parents=True, exist_ok=True)
    problem = instance.problem()
    np.save(folder / "patterns.npy", problem.patterns)
    about = asdict(instance) | {
        "m": problem.m,
        "rule": f"<x, w>/sqrt(n) >= {instance.margin:g} for every row x of patterns",
    }
    (folder / "instance.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def score(instance: Instance, file: str) -> str:
    """Return how good the result in `file` is."""
    if instance.task == "count":
        found = float(Path(file).read_text() if Path(file).is_file() else file)
        low, high = (float(part) for part in instance.best.split(" to "))
        side = "inside" if low - 1e-9 <= found <= high + 1e-9 else "outside"
        return f"log of the count {found:.6g}: {side} {instance.best}"
    problem = instance.problem()
    weights = np.atleast_2d(np.load(file, allow_pickle=False))
    met = problem.is_solution(weights)
    words = f"{int(np.sum(met))} of {len(weights)} rows solve the instance; fewest unmet constraints "
    words += str(int(np.min(problem.violations(weights))))
    if instance.task == "sample":
        samples = ss.Samples.of(problem, weights)
        words += f"\n{ss.diagnose(samples, ss.predict(instance.target, problem.alpha))}"
    return f"{words}\nbest known: {instance.best}"


def measured(instance: Instance) -> str:
    """Return the result of this version: what it found, and the seconds."""
    problem, began = instance.problem(), time.perf_counter()
    if instance.task == "count":
        found = ss.count(problem, rng=0, progress=False)
        return f"{found.low:.6f} to {found.high:.6f}"
    if instance.task == "solve":
        solved = ss.solve(problem, rng=0, progress=False, time_limit=120.0).solved.any()
        return f"{'solved' if solved else 'not solved'}, {time.perf_counter() - began:.1f} s, ss.solve"
    draw = ss.localize if ss.predict(instance.target, problem.alpha).samplable else ss.anneal
    samples = draw(problem, 32, rng=1, progress=False)
    within = ss.diagnose(samples, ss.predict(instance.target, problem.alpha)).within
    spent = f"{time.perf_counter() - began:.1f} s, ss.{draw.__name__}"
    return f"{int(samples.solved.sum())} of 32 solved, bias of overlaps below {within:.3g}, {spent}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.instances", description=__doc__.splitlines()[0])
    parser.add_argument("action", nargs="?", default="list", choices=("list", "export", "score", "best"))
    parser.add_argument("name", nargs="?", help="of an instance")
    parser.add_argument("place", nargs="?", help="folder to write, or file (or number) to score")
    options, known = parser.parse_args(), read()
    if options.action == "list":
        for one in known.values():
            print(
                f"{one.name:<18} {one.task:<7} n={one.n:<6} α={one.alpha:<5g} {one.patterns:<9} {one.target}  {one.best}"
            )
    elif options.action == "best":
        write([replace(one, best=measured(one)) for one in known.values()])
    elif options.name not in known:
        parser.error(f"unknown instance {options.name!r}; known: {', '.join(known)}")
    elif options.place is None:
        parser.error(f"{options.action} needs a {'folder' if options.action == 'export' else 'file'}")
    elif options.action == "export":
        export(known[options.name], Path(options.place))
    else:
        print(score(known[options.name], options.place))
    return 0


if __name__ == "__main__":
    sys.exit(main())
