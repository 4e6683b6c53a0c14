"""Success of annealing against the load, a line for each size.

Fig. 3: the fraction of instances solved after 100 sweeps of Metropolis, the same instances for both schedules: simulated
annealing of the temperature on U = -sΘ(-s), and τ-annealing towards the log potential at T = 0.5. Appendix: each of them
with a panel for each number of sweeps, as many sweeps as weights among them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import rescaled, steps
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BY = ("sampler", "n_sweeps", "n", "alpha")
SIZES = {"quick": [201, 501, 1001], "paper": [501, 1001, 2001, 5001, 10001]}
SWEEPS = {"quick": [10, 100, "n"], "paper": [10, 100, 1000, "n"]}
INSTANCES = {"quick": 40, "paper": 100}
STEP = {"quick": 0.05, "paper": 0.025}
COMPARED = 100
"""Sweeps after which both schedules are compared."""
PAPER = Target("binary", "log", temperature=0.5)


def _targets(temperature: float, margin: float) -> dict[str, Target]:
    """Return what each schedule is asked for; that of the temperature ends at zero, whatever temperature is set."""
    return {"tau": Target("binary", "log", temperature, margin), "temperature": Target("binary", "log", 0.5, margin)}


def _loads(start: float, stop: float, size: str, target: Target) -> Any:
    """Return loads from `start` to `stop`; at another margin, the same shares of the capacity."""
    if target.margin == PAPER.margin:
        return {"start": start, "stop": stop, "step": STEP[size]}
    return list(rescaled(steps(start, stop, STEP[size]), target, PAPER))


def comparison(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure of both schedules side by side."""
    name, targets = "mcmc-comparison", _targets(temperature, margin)

    def specs(size: str) -> Sequence[Spec]:
        return [
            Spec(name=name, n=SIZES[size], alpha=_loads(0.05, 0.7, size, target), target=target, instances=INSTANCES[size],
                 sampler={"name": sampler, "n_sweeps": COMPARED})
            for sampler, target in reversed(targets.items())
        ]  # fmt: skip

    def draw(results: Results, size: str) -> Picture:
        panels = [
            (r"annealing $T$: 1 → 0 on $-s\,\Theta(-s)$", {"sampler": "temperature"}),
            (rf"annealing $\tau$: 1 → 0, log potential at T = {temperature:g}", {"sampler": "tau"}),
        ]
        return picture(
            results, panels, f"{COMPARED} sweeps of Metropolis on the binary perceptron, κ = {signed(margin)}"
        )

    words = f"success of τ- and temperature annealing after {COMPARED} sweeps"
    return Figure(name, words, "Fig. 3", draw, specs, theory(targets["tau"]))


def by_sweeps(sampler: str, target: Target, title: str, start: float, stop: float, heading: str) -> Figure:
    """Return the figure of one schedule, a panel for each number of sweeps, for loads from `start` to `stop`."""
    name = f"{sampler}-annealing"

    def specs(size: str) -> Sequence[Spec]:
        fixed = {"name": sampler, "n_sweeps": [count for count in SWEEPS[size] if count != "n"]}
        grow = {"name": sampler, "n_sweeps": "n"}
        few = [n for n in SIZES[size] if n <= 5001]  # beyond, N sweeps cost more than all the rest
        common: Values = {
            "name": name, "alpha": _loads(start, stop, size, target), "target": target, "instances": INSTANCES[size],
        }  # fmt: skip
        return [Spec(n=SIZES[size], sampler=fixed, **common), Spec(n=few, sampler=grow, **common)]

    def draw(results: Results, size: str) -> Picture:
        names = ["N" if count == "n" else count for count in SWEEPS[size]]
        return picture(results, [(f"{name} sweeps", {"sweeps": name}) for name in names], heading, sampler)

    if sampler == "tau":
        return Figure(name, title, "appendix", draw, specs, theory(target))
    return Figure(name, title, "appendix", draw, specs)


def tau(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure of τ-annealing."""
    return by_sweeps(
        "tau", _targets(temperature, margin)["tau"], "success of τ-annealing for several numbers of sweeps", 0.1, 0.7,
        f"τ-annealing of the binary perceptron, log potential at T = {temperature:g}, κ = {signed(margin)}",
    )  # fmt: skip


def temperature(margin: float = 0.0) -> Figure:
    """Return the figure of annealing the temperature."""
    return by_sweeps(
        "temperature", _targets(0.5, margin)["temperature"],
        "success of temperature annealing for several numbers of sweeps", 0.05, 0.5,
        rf"annealing $T$ from 1 to 0 on $U = -s\,\Theta(-s)$, binary perceptron, κ = {signed(margin)}",
    )  # fmt: skip


def points(results: Results) -> list[Values]:
    """Return the fraction solved at each point; `sweeps` is the number, or "N" where it is the number of weights."""
    found = results.mean("solved_fraction", by=BY)
    return [{**point, "sweeps": "N" if point["n_sweeps"] == point["n"] else point["n_sweeps"]} for point in found]


def theory(target: Target) -> Callable[[str], Sequence[Task]]:
    """Return what gives the thresholds of the measure in which τ-annealing ends."""
    return lambda size: thresholds_of(target)


def picture(
    results: Results, panels: Sequence[tuple[str, Values]], heading: str, sampler: str | None = None
) -> Picture:
    """Return the picture: for each panel its title and what its points have in common; `sampler` where all share it."""
    from solspace.plots import style, sweeps

    table, thresholds = points(results), [row.values["asl"] for row in results.rows(kind="thresholds")]
    with style.style():
        columns = len(panels) if len(panels) < 4 else 2  # four in a row are too wide for a page
        figure, axes = style.panels(
            columns, width=4.4, height=3.6, rows=len(panels) // columns, sharey=True, squeeze=False
        )
        for ax, (title, common) in zip(axes.flat, panels):
            sweeps.success([p for p in table if common.items() <= p.items()], ax)
            ax.set_title(title)
            if common.get("sampler", sampler) == "tau":
                _mark(thresholds, ax)
        sweeps.legend_above(figure, axes.flat, heading)
        instances = sorted({point["instances"] for point in table})
        sweeps.note(
            figure,
            f"{_range(instances)} instances a point, one chain each, ±1 patterns, solved: all constraints met; "
            "bars: one-sigma Wilson intervals over instances",
        )
    return Picture(figure, table)


def _mark(thresholds: Sequence[float | None], ax: Axes) -> None:
    """Mark up to which load theory says that the measure itself can be sampled by localization."""
    from solspace.plots import sweeps

    for threshold in filter(None, thresholds):
        sweeps.threshold(ax, threshold, r"theory: $\alpha_\mathrm{ASL}$ =")


def _range(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}–{values[-1]}"


FIGURES = (adjustable(comparison), adjustable(tau), adjustable(temperature))
