"""The figures of the paper at its own size on a CUDA device: how long each takes, and who waits for whom.

    python -m benchmarks.paper [FIGURE...] [--limit 330] [--size paper] [--store paper.db] [--out FOLDER] [--device gpu]

Figures that need samplers, one after another into one store; each is given at most `--limit` seconds, and what it did by
then stays in the store: the same command goes on. For each: the wall time, tasks done, constraint evaluations a second
(samples a second where a figure is ASL's alone), the share of the time in which the device had something to do, and the
seconds that threads of the host spent on drawing problems, on making lots ready (rounding, packing, sending), on
looking at samples, and on writing rows. The first but the last run beside the device and count only where they exceed
the wall time times the cores; writing is what the device may wait for.
"""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.timing import Table
from solspace.experiments import device, figures
from solspace.experiments.reproduce import ReproduceConfig, reproduce
from solspace.experiments.runner import RunConfig
from solspace.experiments.tasks import Task
from solspace.samplers import registry
from solspace.samplers.annealing import gpu, lots
from solspace.store import Store

COLUMNS = ("figure", "wall", "tasks", "of", "rate", "device busy", "draw", "ready", "look", "write")
PARTS = {
    "draw": (device, "_drawn"),
    "ready": (lots.LotRun, "__init__"),
    "look": (device.Batch, "results"),
    "write": (Store, "add_all"),
}
"""Where the host spends its time: (owner, name) of what is timed."""


class Watch:
    """Seconds of the host's parts, and those in which at least one launch was under way."""

    def __init__(self) -> None:
        self.spent: Counter[str] = Counter()
        self.busy, self.under_way, self.since = 0.0, 0, 0.0
        self.lock = threading.Lock()
        self.undo: list[tuple[Any, str, Any]] = []
        for name, (owner, attribute) in PARTS.items():
            self._wrap(owner, attribute, lambda usual, name=name: self._timed(name, usual))
        self._wrap(gpu.GpuFlips, "launch", lambda usual: self._marked(usual, begins=True))
        self._wrap(gpu.GpuFlips, "meet", lambda usual: self._marked(usual, ends=True))
        for name in ("_localized", "_solved", "_exchanged"):
            self._wrap(registry, name, lambda usual: self._marked(usual, begins=True, ends=True))

    def _wrap(self, owner: Any, name: str, make: Any) -> None:
        usual = getattr(owner, name)
        self.undo.append((owner, name, usual))
        setattr(owner, name, make(usual))

    def _timed(self, name: str, usual: Any) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            begun = time.thread_time()
            try:
                return usual(*given, **named)
            finally:
                with self.lock:
                    self.spent[name] += time.thread_time() - begun

        return call

    def _marked(self, usual: Any, begins: bool = False, ends: bool = False) -> Any:
        def call(*given: Any, **named: Any) -> Any:
            if begins:
                self._count(1)
            try:
                return usual(*given, **named)
            finally:
                if ends:
                    self._count(-1)

        return call

    def _count(self, change: int) -> None:
        with self.lock:
            now = time.perf_counter()
            self.busy += (now - self.since) * (self.under_way > 0)
            self.since, self.under_way = now, max(0, self.under_way + change)

    def stop(self) -> None:
        """Let everything be as it was."""
        self._count(0)
        for owner, name, usual in self.undo:
            setattr(owner, name, usual)


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def measure(name: str, given: argparse.Namespace) -> list[str]:
    """Return a row about one figure."""
    figure = figures.find(name)
    before = _done(given.store, figure, given)
    watch, begun = Watch(), time.perf_counter()
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, given.limit)
    ended = ""
    try:
        run = RunConfig(show_progress=False)
        config = ReproduceConfig(
            size=given.size, store=given.store, out=given.out, device=given.device, formats=("png",), run=run
        )
        reproduce(name, config)
    except KeyboardInterrupt:
        ended = " (stopped)"
    except Exception as error:
        ended = f" ({type(error).__name__}: {' '.join(str(error).split())[:120]})"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        watch.stop()
    wall = time.perf_counter() - begun
    made = _done(given.store, figure, given) - before
    tasks = [task for task in figure.tasks(given.size, given.device) if task.key in made]
    spent = [f"{watch.spent[part]:.1f} s" for part in PARTS]
    return [
        name + ended, f"{wall:.1f} s", f"{len(made):,}", f"{figure.count(given.size):,}", _rate(tasks, wall),
        f"{watch.busy / wall:.0%}", *spent,
    ]  # fmt: skip


def _done(store: Path, figure: figures.Figure, given: argparse.Namespace) -> set[str]:
    if not store.exists():
        return set()
    with Store(store) as results:
        found = results.statuses(task.key for task in figure.tasks(given.size, given.device))
    return {key for key, status in found.items() if status == "done"}


def _rate(tasks: list[Task], wall: float) -> str:
    """Return evaluations a second of the chains among `tasks`, or samples a second where there are none."""
    sampled = [task.values for task in tasks if "sampler" in task.values]
    chains = [values for values in sampled if registry.find(values["sampler"]).anywhere]
    if not chains:
        return f"{sum(values['n_samples'] for values in sampled) / wall:.0f} samples/s"
    work = sum(
        registry.find(v["sampler"]).work(v["n"], max(1, round(v["alpha"] * v["n"])), v["n_samples"], v["options"])
        for v in chains
    )
    return f"{work / wall:.2e}/s"


def main() -> None:
    """Measure the figures asked for."""
    known = [name for name in figures.FIGURES if figures.find(name).specs("paper")]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("figures", nargs="*", help=f"of {', '.join(known)}; all unless given")
    parser.add_argument("--limit", type=float, default=330.0, help="seconds that a figure may take")
    parser.add_argument("--size", default="paper", choices=figures.SIZES)
    parser.add_argument("--device", default="gpu")
    parser.add_argument("--store", type=Path, default=Path("paper.db"))
    parser.add_argument("--out", type=Path, default=Path("figures"))
    given = parser.parse_args()
    table = Table(
        "The figures of the paper on a device", "Wall times; host's parts in seconds of its threads.", COLUMNS
    )
    begun = time.perf_counter()
    for name in given.figures or known:
        row = measure(name, given)
        print(" | ".join(row), flush=True)
        table.add(*row)
    print(f"\n{table.markdown()}\nall: {time.perf_counter() - begun:.0f} s")


if __name__ == "__main__":
    main()
