"""How far and how fast `ss.solve` finds solutions: fractions over many instances.

    python -m benchmarks.solve --part random-1001 [--device gpu] [--instances 40] [--limit 60] [--workers 1] [--out FILE]
    python -m benchmarks.solve --table FILE...

A part takes some minutes and writes a line of JSON for each instance as it goes; a part that is started again goes on where
its file ends, and `--seconds` stops it in time. `--table` makes the tables of such files. `--workers` runs instances side by
side, one core each. Images need SOLSPACE_DATA. Every solution is checked again here, from the patterns.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import lru_cache
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # before NumPy reads them
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(_name, "1")

import numpy as np

import solspace as ss
from solspace.samplers.annealing.anneal import first_solutions

Point = dict[str, Any]
"""What an instance is drawn from: n, alpha, margin, width, patterns or data, and the solver."""


def _points(sizes: Sequence[int], loads: Sequence[float], **more: Any) -> list[Point]:
    return [{"n": n, "alpha": alpha, "solver": "solve", **more} for n in sizes for alpha in loads]


def _images(name: str, loads: Sequence[float], **more: Any) -> list[Point]:
    return [
        {"data": name, "alpha": alpha, "solver": solver, **more}
        for alpha in loads
        for solver in ("solve", "tau, N sweeps")
    ]


D1RSB = {0.2: 0.529311, -0.3: 0.955668}
"""Load of theory's d1RSB line (log potential, T = 0.5) at two margins: `ss.thresholds(...).dynamical`."""

PARTS: dict[str, list[Point]] = {
    "random-1001": _points([1001], [0.70, 0.72, 0.74, 0.75]),
    "random-10001": _points([10001], [0.70, 0.72, 0.74, 0.75]),
    "random-100001": _points([100001], [0.70]),
    "gaussian-1001": _points([1001], [0.70, 0.72, 0.74], patterns="gaussian"),
    "gaussian-10001": _points([10001], [0.70, 0.72, 0.74], patterns="gaussian"),
    "margins": [
        point for kappa, load in D1RSB.items() for point in _points([1001, 10001], [0.9 * load, load], margin=kappa)
    ],
    "symmetric-1001": _points([1001], [1.4, 1.5, 1.55, 1.6], width=1.0),
    "symmetric-10001": _points([10001], [1.5, 1.6], width=1.0),
    "mnist": _images("mnist", [0.5, 0.6, 0.7, 0.8, 1.0, 1.2]),
    "fashion": _images("fashion", [0.4, 0.5, 0.6, 0.8, 1.0]),
    "mnist-features": _images("mnist", [0.8, 1.0, 1.2, 1.4], features=400),
    "fashion-features": _images("fashion", [0.8, 1.0, 1.2, 1.4], features=400),
    "small": [
        {"n": n, "alpha": 0.83, "solver": solver}
        for n in (13, 15, 17)
        for solver in ("enumeration", "solve, exact", "solve, reinforce", "solve, tau", "solve, ep")
    ],
}


def problem_of(point: Point, instance: int) -> ss.Perceptron:
    """Return an instance; those of one point but for the solver are the same."""
    target = ss.Target(
        potential=f"band({point['width']})" if "width" in point else "uniform", margin=point.get("margin", 0.0)
    )
    if "data" in point:
        X, y = ss.data.load(point["data"])
        return ss.Perceptron.from_data(X, y, point["alpha"], point.get("features"), target=target, rng=instance)
    return ss.Perceptron.random(
        point["n"], point["alpha"], target, point.get("patterns", "binary"), rng=7000 + instance
    )


@lru_cache(maxsize=1)
def _warm() -> None:
    """Compile, or read, what solving needs: once in a process, and not within the time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for patterns in ("binary", "gaussian"):
            problem = ss.Perceptron.random(41, 1.5, patterns=patterns, rng=0)
            for method in ("auto", "tau", "ep"):
                ss.solve(problem, 5, time_limit=0.3, method=method, progress=False)


def attempt(point: Point, instance: int, limit: float, device: str) -> dict[str, Any]:
    """Return what one solver does with one instance in `limit` seconds."""
    _warm()
    problem = problem_of(point, instance)
    details: dict[str, Any] = {}
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if point["solver"].startswith("solve"):
            method = point["solver"].partition(", ")[2] or "auto"
            samples = ss.solve(problem, rng=instance, method=method, time_limit=limit, device=device, progress=False)
            weights, info = samples.weights[0], samples.info
            details = {"method": info.method, "iterations": info.iterations, "restarts": info.restarts}
        else:
            weights = _peer(problem, point["solver"], instance, limit)
    seconds = time.perf_counter() - begun
    unmet = None if weights is None else int(problem.violations(weights))
    return {
        **point,
        "m": problem.m,
        "instance": instance,
        "unmet": unmet,
        "seconds": seconds,
        "limit": limit,
        **details,
    }


def _peer(problem: ss.Perceptron, name: str, seed: int, limit: float) -> Any:
    if name == "enumeration":  # plainly, so that nothing is shared with `exact`
        every = 2 * (np.arange(2**problem.n)[:, None] >> np.arange(problem.n) & 1) - 1
        met = (every @ problem.patterns.T >= problem.target.margin * np.sqrt(problem.n)).all(axis=1)
        return every[met.argmax()] if met.any() else None
    half = problem.with_target(ss.Target(margin=problem.target.margin))
    return first_solutions(half, 1, problem.n, rng=seed, n_threads=1, progress=False).weights[0]


def run(given: argparse.Namespace) -> None:
    """Make what the file of a part lacks, instance by instance, until all is done or the time is over."""
    done = {_name(row) for row in _read([given.out])} if given.out.exists() else set()
    todo = [
        (point, instance)
        for instance in range(given.instances)
        for point in PARTS[given.part]
        if given.alpha in (None, round(point["alpha"], 3)) and _name({**point, "instance": instance}) not in done
    ]
    end = time.monotonic() + given.seconds
    with given.out.open("a", encoding="utf-8") as file:
        for row in _made(todo, given, end):
            print(json.dumps(row), file=file, flush=True)
            label = row.get("data") or row.get("n")
            print(f"{label} α={row['alpha']:.3g} {row['solver']} #{row['instance']}: unmet {row['unmet']}, "
                  f"{row['seconds']:.2f} s", flush=True)  # fmt: skip


def _made(todo: list[tuple[Point, int]], given: argparse.Namespace, end: float) -> Iterator[dict[str, Any]]:
    if given.workers == 1:
        for point, instance in todo:
            if time.monotonic() > end:
                return
            yield attempt(point, instance, given.limit, given.device)
        return
    waiting = iter(todo)
    with ProcessPoolExecutor(given.workers) as pool:
        going = set()
        while True:
            while len(going) < given.workers and time.monotonic() < end and (one := next(waiting, None)) is not None:
                going.add(pool.submit(attempt, *one, given.limit, given.device))
            if not going:
                return
            ready = next(as_completed(going))
            going.discard(ready)
            yield ready.result()


def _name(row: dict[str, Any]) -> str:
    names = ("n", "data", "features", "patterns", "margin", "width", "alpha", "solver", "instance")
    return json.dumps([row.get(name) for name in names])


def _read(files: Sequence[Path]) -> list[dict[str, Any]]:
    return [json.loads(line) for file in files for line in file.read_text(encoding="utf-8").splitlines() if line]


def table(files: Sequence[Path]) -> str:
    """Return the fractions solved and the times of all rows in `files`, in Markdown."""
    from benchmarks.timing import Spread, Table

    found = Table(
        "Solving",
        "Fraction of instances solved within the time limit, every solution rechecked from the patterns; median time, with the "
        "shortest and the longest, of those that were solved.",
        ("problem", "N", "α", "solver", "solved", "fraction", "time", "limit", "unmet at best, unsolved"),
    )
    for rows in _grouped(_read(files)).values():
        one, solved = rows[0], _solved(rows)
        missed = [row["unmet"] for row in rows if row["unmet"]]
        kind = one.get("data") or ("|s| ≤ 1" if "width" in one else one.get("patterns", "±1"))
        extra = f", {one['features']} features" if one.get("features") else ""
        extra += f", κ = {one['margin']:g}" if one.get("margin") else ""
        found.add(
            kind + extra, one.get("n", ""), f"{one['alpha']:.3g}", one["solver"],
            f"{len(solved)}/{len(rows)}", f"{len(solved) / len(rows):.2f}", Spread.of(solved) if solved else "–",
            f"{_limits(rows)} s", f"{np.median(missed):g}" if missed else "",
        )  # fmt: skip
    return found.markdown()


def _limits(rows: Sequence[dict[str, Any]]) -> str:
    return " or ".join(f"{limit:g}" for limit in sorted({row["limit"] for row in rows}))


def _grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each point."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_name({**row, "instance": None}), []).append(row)
    return groups


def _solved(rows: Sequence[dict[str, Any]]) -> list[float]:
    """Return the times of the instances that were solved in time; some solvers look at the clock only now and then."""
    return [row["seconds"] for row in rows if row["unmet"] == 0 and row["seconds"] <= row["limit"]]


def main() -> int:
    """Run a part, or make the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--table", nargs="+", type=Path, help="files whose rows to put into a table")
    parser.add_argument("--device", default="cpu", help="cpu, gpu or auto, for solve")
    parser.add_argument("--instances", type=int, default=40)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for each instance")
    parser.add_argument("--alpha", type=float, help="this load of the part only")
    parser.add_argument("--seconds", type=float, default=500.0, help="begin no instance after so many")
    parser.add_argument("--workers", type=int, default=1, help="instances side by side")
    parser.add_argument("--out", type=Path, help="file of rows; solve-PART.jsonl unless given")
    given = parser.parse_args()
    if given.table:
        print(table(given.table))
        return 0
    if given.part is None:
        parser.error("give --part or --table")
    given.out = given.out or Path(f"solve-{given.part}.jsonl")
    run(given)
    print(table([given.out]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
