"""Figures on counting: log numbers of solutions with intervals, and where the intervals end."""

from __future__ import annotations

import math

import numpy as np

from solspace.experiments.figures import Content, Picture, register
from solspace.experiments.results import Results
from solspace.experiments.tasks import Found, Task, windows_at
from solspace.measure import Target
from solspace.problem import Perceptron
from solspace.system.plain import Values

TARGET = Target("binary", "uniform")
SEARCHED = 37  # most weights whose count is exact
REACHED = (0.1, 0.3, 1.0)  # half widths of intervals that are told apart


def counted(task: Task) -> Found:
    """Return a count with its interval by draws, and where it is affordable the exact one and the value of EP."""
    from solspace.counting.count import count

    values = task.values
    problem = Perceptron.random(values["n"], values["alpha"], TARGET, rng=task.seed_from("n", "alpha", "instance"))
    found = count(problem, method="epar", rng=task.seed, progress=False)
    about: Values = {"log": found.log, "low": found.low, "high": found.high, "trusted": found.trusted}
    about["effective"] = found.effective_samples
    if values["others"]:
        about["ep"] = count(problem, method="ep", progress=False).log
        exact = count(problem, method="exact", progress=False).log if problem.n <= SEARCHED else None
        about["exact"] = exact
    return about, {}


def tasks_of(sizes: tuple[int, ...], loads: tuple[float, ...], instances: int, others: bool) -> list[Task]:
    points = [(n, alpha, instance) for n in sizes for alpha in loads for instance in range(instances)]
    return [
        Task({"kind": "count", "n": n, "alpha": alpha, "instance": instance, "others": others})
        for n, alpha, instance in points
    ]


@register("counts", "ours", "log number of solutions against the load: exact, by draws, by EP, in theory")
def counts(size: str) -> Content:
    sizes = (25, 37, 101)
    loads, instances = {
        "quick": ((0.2, 0.3, 0.4, 0.5, 0.6), 1),
        "paper": (tuple(round(0.1 + 0.05 * i, 2) for i in range(13)), 5),
    }[size]
    theory = windows_at(TARGET, np.linspace(min(loads), max(loads), 11))
    return Content(_counts, theory=[*tasks_of(sizes, loads, instances, True), *theory])


def _counts(results: Results) -> Picture:
    from solspace.plots import style

    rows = [{**row.task, **row.values} for row in results.rows(kind="count")]
    entropies = sorted((row.task["alpha"], row.values["entropy"]) for row in results.rows(kind="windows"))
    sizes = sorted({row["n"] for row in rows})
    drawing, axes = style.panels(len(sizes), width=4.0, height=3.6)
    for ax, n in zip(np.atleast_1d(axes), sizes):
        own = [row for row in rows if row["n"] == n]
        ax.plot(
            *zip(*((alpha, n * value) for alpha, value in entropies)), color=style.RED, label=r"theory, $n\to\infty$"
        )
        ep = [(row["alpha"], row["ep"]) for row in own if row["ep"] is not None]
        ax.plot(*zip(*ep), "x", color=style.SERIES[1], label="EP")
        sure = [row for row in own if row["trusted"]]
        if sure:
            x, y, low, high = np.array([[row[name] for name in ("alpha", "log", "low", "high")] for row in sure]).T
            ax.errorbar(x, y, [y - low, high - y], fmt="o", ms=3, capsize=2, color=style.BLUE, label="EPAR, 95%")
        bounded = [(row["alpha"], row["low"]) for row in own if not row["trusted"] and row["low"] is not None]
        if bounded:
            ax.plot(*zip(*bounded), "^", ms=4, color=style.GREY, label="lower bound, 95%")
        exact = [(row["alpha"], row["exact"]) for row in own if row["exact"] is not None]
        if exact:
            ax.plot(*zip(*exact), "s", ms=7, mfc="none", color=style.SERIES[6], label="exact")
        ax.set(xlabel=r"load $\alpha$", title=f"n = {n}")
        ax.legend(fontsize="small")
    np.atleast_1d(axes)[0].set_ylabel("log number of solutions")
    names = ("n", "alpha", "instance", "exact", "log", "low", "high", "trusted", "effective", "ep")
    return Picture(drawing, [{name: row[name] for name in names} for row in rows])


@register("counting-reach", "ours", "how wide intervals of counts are, and where they end")
def counting_reach(size: str) -> Content:
    sizes, loads, instances = {
        "quick": ((41, 61, 101, 151), (0.2, 0.35, 0.5, 0.65), 1),
        "paper": ((41, 61, 81, 101, 151, 201, 301), tuple(round(0.1 + 0.1 * i, 1) for i in range(8)), 3),
    }[size]
    return Content(_counting_reach, theory=tasks_of(sizes, loads, instances, False))


def _counting_reach(results: Results) -> Picture:
    from solspace.plots import style

    rows = [{**row.task, **row.values} for row in results.rows(kind="count")]
    drawing, ax = style.panels(1)
    labelled: set[str] = set()
    for row in rows:
        shift = 1 + 0.02 * row["instance"]
        width = (row["high"] - row["low"]) / 2 if row["trusted"] else math.inf
        kind = next((k for k, limit in enumerate(REACHED) if width <= limit), len(REACHED))
        words = [f"half width to {limit:g}" for limit in REACHED] + ["wider" if row["trusted"] else "no interval"]
        look = {"color": style.SERIES[(2, 5, 1, 3)[kind]], "marker": "o" if row["trusted"] else "x"}
        label = None if words[kind] in labelled else words[kind]
        labelled.add(words[kind])
        ax.plot(row["n"] * shift, row["alpha"], linestyle="none", markersize=9, label=label, **look)
    ax.set(xscale="log", xlabel="weights $n$", ylabel=r"load $\alpha$", title="95% intervals of EPAR, ±1 patterns")
    ticks = sorted({row["n"] for row in rows})
    ax.set_xticks(ticks, map(str, ticks))
    ax.minorticks_off()
    ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    names = ("n", "alpha", "instance", "log", "low", "high", "trusted", "effective")
    return Picture(drawing, [{name: row[name] for name in names} for row in rows])
