"""Where sampling real data stays fair: chains' overlap with themselves and with each other, against the load.

After τ-annealing chains stay on at τ = 0. Where *self*, the overlap of a chain with its own draw half the further sweeps
earlier, has fallen to *cross*, the overlap of two chains, they have forgotten where they came from and what they draw is
fair. Where it has not, replicas that are exchanged with earlier stages of the schedule reach further.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from solspace.data.catalogue import data_set
from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.system.plain import Values


@dataclass(frozen=True)
class Panel:
    """A data set, its pixels or features of them, the loads, and whether replicas are exchanged too."""

    data: str
    alphas: Sequence[float]
    features: int | None = None
    exchange: bool = True

    @property
    def title(self) -> str:
        """What the panel shows."""
        name = data_set(self.data).title.split(",")[0]
        return (
            f"{name}, N = {self.features} features" if self.features else f"{name}, {data_set(self.data).pixels} pixels"
        )


PANELS = {
    "quick": (
        Panel("mnist", (0.2, 0.4, 0.6)),
        Panel("fashion", (0.2, 0.35, 0.5)),
        Panel("mnist", (0.4, 0.8, 1.2), features=100),
        Panel("cifar10", (0.05, 0.1), exchange=False),
    ),
    "paper": (
        Panel("mnist", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)),
        Panel("fashion", (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)),
        Panel("mnist", (0.3, 0.5, 0.7, 0.8, 0.9, 1.0), features=400),
        Panel("cifar10", (0.05, 0.1, 0.15, 0.2)),
    ),
}
CHAINS = {"quick": 8, "paper": 16}
SWEEPS = {"quick": {"n_sweeps": 200, "n_extra": 400}, "paper": {"n_sweeps": 1000, "n_extra": 2000}}
INSTANCES = {"quick": 1, "paper": 3}
KINDS = {False: "plain chains", True: "with exchange"}


def _spec(panel: Panel, size: str, exchange: bool, temperature: float, margin: float) -> ImageSpec:
    sweeps = SWEEPS[size]
    more: Values = {"n_extra": sweeps["n_extra"], "thin": sweeps["n_extra"] // 40}
    more |= {"exchange": True} if exchange else {}
    return ImageSpec(
        panel.data, panel.alphas, (sweeps["n_sweeps"],), features=(panel.features,), methods=("tau",),
        instances=INSTANCES[size], options=tuple(sorted(more.items())), n_samples=CHAINS[size], kind="mixing",
        temperature=temperature, margin=margin,
    )  # fmt: skip


def table(results: Results) -> list[Values]:
    """Return a line for each instance and kind of chains."""
    lines = []
    for row in results.rows(kind="mixing"):
        task, found = row.task, row.values
        about = {name: task[name] for name in ("data", "features", "alpha", "instance")}
        names = ("self_overlap", "self_overlap_error", "cross_overlap", "cross_overlap_error", "memory", "memory_error",
                 "lag", "missed", "rhat", "solved_fraction", "fair", "within", "rungs", "round_trips", "verdict")  # fmt: skip
        lines.append({**about, "exchange": bool(task["options"].get("exchange")), **{n: found.get(n) for n in names}})
    return lines


def _draw(results: Results, size: str, title: str) -> Picture:
    """Return a panel for each data set."""
    from solspace.plots import style, sweeps

    lines = table(results)
    with style.style():
        figure, axes = style.panels(len(PANELS[size]), width=3.5, height=3.5)
        for ax, panel in zip(axes, PANELS[size]):
            own = [line for line in lines if (line["data"], line["features"]) == (panel.data, panel.features)]
            for k, (exchange, name) in enumerate(KINDS.items()):
                sweeps.self_and_cross([line for line in own if line["exchange"] is exchange], ax, name, k)
            ax.set_title(panel.title)
        axes[0].set_ylabel("overlap")
        figure.legend(*_names(axes), loc="outside upper center", ncols=4, title=title or None)
        sweeps.note(figure, _note(lines, size))
    return Picture(figure, lines)


def _names(axes: Any) -> tuple[Any, Any]:
    found: Values = {}
    for ax in axes:
        handles, labels = ax.get_legend_handles_labels()
        found = {**dict(zip(labels, handles)), **found}
    order = sorted(found, key=lambda label: ("exchange" in label, "self" not in label))
    return [found[label] for label in order], order


def _note(lines: Sequence[Values], size: str) -> str:
    run, instances = SWEEPS[size], INSTANCES[size]
    lag = run["n_extra"] // 2
    return (
        f"{CHAINS[size]} chains, τ from 1 to 0 in {run['n_sweeps']} sweeps, then {run['n_extra']} at τ = 0; self: a chain's "
        f"overlap with its own draw {lag} sweeps earlier; {instances} instance{'s' * (instances > 1)} a point; bars: one "
        "standard error; filled: called mixed; crosses: some draws miss constraints"
    )


def figure(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure of any temperature and margin."""
    title = "" if (temperature, margin) == (0.5, 0.0) else f"T = {temperature:g}, κ = {signed(margin)}"

    def specs(size: str) -> list[ImageSpec]:
        return [
            _spec(panel, size, exchange, temperature, margin)
            for exchange in KINDS
            for panel in PANELS[size]
            if panel.exchange or not exchange
        ]

    words = "self and cross overlap of chains on real images"
    return Figure("mixing", words, "beyond the paper", lambda results, size: _draw(results, size, title), specs)


FIGURES = (adjustable(figure),)
