"""Measure this machine side by side: ``python -m benchmarks [PART...] [--quick] [--out FILE] [--json]``, or `solspace bench`.

Our samplers and our theory beside NumPy written plainly, SciPy's quadrature, HiGHS, OR-tools CP-SAT, dwave-samplers and
scikit-learn; the machine's floors; and how costs grow with N. All in one run, one core each, on the same instances, every
solution rechecked from the patterns. Optional solvers: ``pip install -e '.[bench]'``. About ten minutes;
`--quick`: two to three.
"""

from __future__ import annotations

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ[_name] = "1"  # before NumPy reads them

import argparse
import dataclasses
import json
import platform
import sys
import time
from collections.abc import Callable
from datetime import date
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import solspace
from benchmarks.timing import Table


def _part(module: str, function: str = "table", **options: object) -> Callable[[bool], Table]:
    """Return the part that `function` of a module makes; `options` are what differs when it must be quick."""

    def make(quick: bool) -> Table:
        call = getattr(import_module(f"benchmarks.{module}"), function)
        return call(**options if quick else {}) if options else call(quick)

    return make


PARTS: dict[str, Callable[[bool], Table]] = {
    "floors": _part("floors"),
    "start": _part("start"),
    "calls": _part("calls"),
    "solvers": _part("solvers"),
    "proofs": _part("solvers", "proofs"),
    "fresh": _part("solvers", "fresh"),
    "anneal": _part("anneal", "speed", sizes=((1001, 31, "binary"), (1001, 31, "gaussian")), rounds=1),
    "levels": _part("levels", "speed", sweeps=20, rounds=1),
    "levels-pymc": _part("levels", "beside_pymc", draws=50),
    "localize": _part("localize"),
    "ep": _part("ep", "speed"),
    "ep-accuracy": _part("ep", "accuracy"),
    "amp-levels": _part("inference", "levels", rounds=3),
    "planted": _part("inference", "planted", n=301, instances=5),
    "calibration": _part("inference", "calibration"),
    "theory": _part("theory", rounds=1),
    "channel": _part("channel", rounds=5, betas=(0.0, 2.0)),
    "learning": _part("learning"),
    "anneal-scaling": _part("anneal", "scaling", sizes=(1001, 5001), rounds=1),
    "localize-scaling": _part("localize", "scaling"),
    "sphere": _part("sphere", "samplers"),
    "sphere-rate": _part("sphere", "rate"),
    "sphere-finish": _part("sphere", "finish"),
    "laptop": _part("laptop"),
    "store": _part("store", count=1000, rows=20_000),
}
ON_REQUEST = ("laptop", "calibration")
"""Parts that run only where they are named: they compile everything anew, several times, or take minutes."""


def machine() -> str:
    """Return the machine in a sentence: its processor, and the versions that matter."""
    model = platform.processor() or platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in cpus.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    found = [f"solspace {solspace.__version__}"]
    for name in ("numpy", "scipy", "numba", "scikit-learn", "dwave-samplers", "ortools"):
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return f"{model}, one core; Python {platform.python_version()}, {', '.join(found)}."


def main() -> int:
    """Run the chosen parts; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="solspace bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; by default all but {', '.join(ON_REQUEST)}")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller sizes")
    parser.add_argument("--out", type=Path, help="also write the tables to this Markdown file")
    parser.add_argument("--json", action="store_true", help="print the tables as JSON instead")
    args = parser.parse_args()
    unknown = [name for name in args.parts if name not in PARTS]
    if unknown:
        parser.error(f"unknown part {unknown[0]!r}; known: {', '.join(PARTS)}")
    begun, tables = time.perf_counter(), []
    for name in args.parts or [name for name in PARTS if name not in ON_REQUEST]:
        start = time.perf_counter()
        try:
            tables.append(PARTS[name](args.quick))
        except ImportError as error:
            print(f"{name}: left out, {error}", file=sys.stderr, flush=True)
            continue
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if not args.json:
            print(f"\n{tables[-1].markdown()}", flush=True)
    minutes = (time.perf_counter() - begun) / 60
    command = f"python -m benchmarks{' --quick' * args.quick}"
    measured = f"Measured by `{command}` on {date.today()} in {minutes:.1f} minutes"
    heading = f"{machine()} {measured}: medians, with the shortest and longest time in brackets."
    if args.json:
        print(json.dumps({"machine": machine(), "tables": [dataclasses.asdict(one) for one in tables]}, indent=2))
    else:
        print(heading)
    if args.out is not None:
        args.out.write_text("\n".join([f"{heading}\n", *(one.markdown() for one in tables)]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
