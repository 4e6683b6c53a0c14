"""Figures on real images: success of annealing (appendix of the paper), and whether sampling stays fair (beyond it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from solspace.data.catalogue import data_set
from solspace.experiments.figures import Figure, Picture, register, signed, steps
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.system.plain import Values

PREPROCESS = ("centred", "raw")
LABELS = {
    "tau": r"τ-annealing, $-\log s$, T = {}",
    "errors": r"annealing $T$ on $\Theta(-s)$",
    "hinge": r"annealing $T$ on $-s\,\Theta(-s)$",
}
Sizes = Mapping[str, Mapping[int, tuple[Sequence[float], int]]]
"""Size -> number of sweeps, or of features: (loads, instances)."""


def success(data: str, sizes: Sizes, features: bool, temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure of the fraction of instances solved by three methods, a panel for each key of `sizes`.

    Keys are numbers of sweeps on the pixels, or numbers of random features with as many sweeps. There is a row of panels for
    each preprocessing, since the paper does not state which was used: *centred* rows have stabilities of standard deviation 1,
    *raw* ones are pixels/255.
    """
    known = data_set(data)

    def specs(size: str) -> list[ImageSpec]:
        return [
            ImageSpec(data, alphas, ("n" if features else key,), features=(key if features else None,), margin=margin,
                      preprocess=PREPROCESS, instances=instances, temperature=temperature)
            for key, (alphas, instances) in sizes[size].items()
        ]  # fmt: skip

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures.panels import Success, instances
        from solspace.experiments.figures.panels import success as draw

        table = results.mean("solved_fraction", by=("preprocess", "n_sweeps", "n", "method", "alpha"))
        for point in table:
            point["label"] = LABELS[point["method"]].format(f"{temperature:g}")
        panels = [
            [
                Success(
                    f"N = {key} features, N sweeps, {preprocess} pixels"
                    if features
                    else f"{key} sweeps, {preprocess} pixels",
                    [p for p in table if (p["preprocess"], p["n" if features else "n_sweeps"]) == (preprocess, key)],
                )
                for key in sizes[size]
            ]
            for preprocess in PREPROCESS
        ]
        tall = len(panels[0]) > 3  # more than fit into a page side by side
        rows = list(zip(*panels)) if tall else panels
        name = f"{known.title.split(',')[0]} {known.classes[0]} against {known.classes[1]}"
        heading = f"random linear features of {name}" if features else f"{name}, N = {known.pixels}"
        heading += "" if margin == 0 else f", κ = {signed(margin)}"
        drawing = draw(
            [panel for row in rows for panel in row], len(rows[0]), heading, series="label", label="{}",
            height=2.8 if tall else 3.4,
        )  # fmt: skip
        note = (
            f"{instances(table)} instances a point, one chain each, solved: no constraint missed at the end of the schedule; "
            "bars: one-sigma Wilson intervals over instances"
        )
        return Picture(drawing, table, note=note)

    return Figure(f"{known.title}: instances {'of random features ' * features}solved", picture, specs)


PIXELS: Sizes = {  # N = 784
    "quick": {100: (steps(0.2, 0.8, 0.1), 10), 784: (steps(0.3, 0.7, 0.2), 4)},
    "paper": dict.fromkeys((100, 784), (steps(0.1, 1.0, 0.05), 100)),
}
COLOURS: Sizes = {  # N = 3072
    "quick": {100: (steps(0.05, 0.2, 0.05), 4), 300: (steps(0.1, 0.2, 0.1), 3)},
    "paper": dict.fromkeys((1000, 3000), (steps(0.05, 0.5, 0.025), 100)),
}
FEATURES: Sizes = {
    "quick": {32: (steps(0.4, 1.6, 0.3), 30), 64: (steps(0.4, 1.6, 0.3), 20), 256: (steps(0.4, 1.2, 0.4), 8)},
    "paper": dict.fromkeys((32, 64), (steps(0.2, 2.0, 0.1), 100))
    | dict.fromkeys((1024, 2048), (steps(0.2, 1.4, 0.1), 100)),
}


def _register(name: str, data: str, sizes: Sizes, features: bool = False) -> None:
    @register(name, "appendix")
    def make(temperature: float = 0.5, margin: float = 0.0) -> Figure:
        return success(data, sizes, features, temperature, margin)


_register("mnist", "mnist", PIXELS)
_register("mnist-features", "mnist", FEATURES, features=True)
_register("fashion", "fashion", PIXELS)
_register("fashion-features", "fashion", FEATURES, features=True)
_register("cifar10", "cifar10", COLOURS)


class Panel(NamedTuple):
    """A data set, its pixels or random features of them, and the loads; `exchange`: whether replicas are exchanged too."""

    data: str
    alphas: tuple[float, ...]
    features: int | None = None
    exchange: bool = True

    @property
    def title(self) -> str:
        known = data_set(self.data)
        words = f"N = {self.features} features" if self.features else f"{known.pixels} pixels"
        return f"{known.title.split(',')[0]}, {words}"

    def holds(self, task: Mapping[str, object]) -> bool:
        return (task["data"], task["features"]) == (self.data, self.features)


FAIR = {
    "quick": (Panel("mnist", (0.3,)), Panel("fashion", (0.25,)), Panel("mnist", (0.5,), 200)),
    "paper": (Panel("mnist", (0.4,)), Panel("fashion", (0.3,)), Panel("mnist", (0.5,), 400)),
}
# AMP with a variance for every constraint has no device
FAIR_OPTIONS: dict[str, Values] = {
    "chains": {},
    "AMP": {"denoiser": "amp", "device": "cpu", "finish": 0},
    "EP, and a draw in the field": {"denoiser": "ep"},
}


@register("fair-on-images", "beyond the paper")
def fair_on_images(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Overlaps of pairs of samples by mixed chains, and by localization with AMP and with EP.

    AMP's samples, localized to the end as in the paper, are too similar; expectation propagation and a draw in the field give
    what the chains give.
    """
    chains, samples, sweeps = {"quick": 64, "paper": 1056}, {"quick": 32, "paper": 128}, {"quick": 400, "paper": 2000}
    changed = "" if (temperature, margin) == (0.5, 0.0) else f"T = {temperature:g}, κ = {signed(margin)}"

    def specs(size: str) -> list[ImageSpec]:
        by_chains: Values = {"n_extra": sweeps[size], "thin": sweeps[size] // 20}
        return [
            ImageSpec(
                panel.data, panel.alphas, (None if options else sweeps[size],), features=(panel.features,),
                methods=("asl" if options else "tau",), options=tuple(sorted((options or by_chains).items())),
                n_samples=(samples if options else chains)[size], kind="overlaps", temperature=temperature, margin=margin,
            )
            for panel in FAIR[size]
            for options in FAIR_OPTIONS.values()
        ]  # fmt: skip

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import style
        from solspace.plots.samples import overlap_outlines

        rows, table = list(results.rows(arrays=True, kind="overlaps")), []
        denoisers = {options.get("denoiser"): name for name, options in FAIR_OPTIONS.items()}
        drawing, axes = style.panels(len(FAIR[size]), width=4.0, height=3.5)
        for ax, panel in zip(axes, FAIR[size]):
            own = {denoisers[row.task["options"].get("denoiser")]: row for row in rows if panel.holds(row.task)}
            own = {name: own[name] for name in FAIR_OPTIONS if name in own}
            overlaps = {name: row.arrays["overlaps"] for name, row in own.items()}
            means = {name: row.values["overlap"] for name, row in own.items()}
            overlap_outlines(overlaps, means, panel.features or data_set(panel.data).pixels, ax)
            ax.set_title(f"{panel.title}, α = {panel.alphas[0]:g}")
            about: Values = {"data": panel.data, "features": panel.features, "alpha": panel.alphas[0]}
            names = ("overlap", "overlap_error", "self_overlap", "solved_fraction", "verdict")
            table += [{**about, "sampler": k, **{n: row.values.get(n) for n in names}} for k, row in own.items()]
        note = (
            f"overlaps of pairs: {chains[size]} chains, τ from 1 to 0 in {sweeps[size]} sweeps and as many at τ = 0; "
            f"{samples[size]} localized samples each; dashed: means"
        )
        return Picture(drawing, table, changed, note + f"; {changed}" * bool(changed))

    return Figure("overlaps of samples of real images: chains, AMP, EP", picture, specs)


MIXING = {
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
MIXING_SWEEPS = {"quick": (200, 400), "paper": (1000, 2000)}
"""Sweeps from τ = 1 to 0, and at τ = 0."""


@register("mixing", "beyond the paper")
def mixing(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Where sampling real data stays fair: overlaps of chains with themselves and with each other, against the load.

    After τ-annealing chains stay at τ = 0. Where *self*, the overlap of a chain with its own draw half of these sweeps
    earlier, has fallen to *cross*, the overlap of two chains, the draws are fair. Where it has not, the exchange of replicas
    with earlier stages of the schedule reaches further.
    """
    chains, instances = {"quick": 8, "paper": 16}, {"quick": 1, "paper": 3}
    kinds = {False: "plain chains", True: "with exchange"}

    def specs(size: str) -> list[ImageSpec]:
        n_sweeps, n_extra = MIXING_SWEEPS[size]
        plain: Values = {"n_extra": n_extra, "thin": n_extra // 40}
        return [
            ImageSpec(
                panel.data, panel.alphas, (n_sweeps,), features=(panel.features,), methods=("tau",),
                instances=instances[size], options=tuple(sorted({**plain, **({"exchange": True} if exchange else {})}.items())),
                n_samples=chains[size], kind="mixing", temperature=temperature, margin=margin,
            )
            for exchange in kinds
            for panel in MIXING[size]
            if panel.exchange or not exchange
        ]  # fmt: skip

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        table = _mixing_table(results)
        drawing, axes = style.panels(len(MIXING[size]), width=3.5, height=3.5)
        legend: Values = {}
        for ax, panel in zip(axes, MIXING[size]):
            own = [line for line in table if panel.holds(line)]
            for k, (exchange, name) in enumerate(kinds.items()):
                sweeps.self_and_cross([line for line in own if line["exchange"] is exchange], ax, name, k)
            ax.set_title(panel.title)
            handles, labels = ax.get_legend_handles_labels()
            legend = {**dict(zip(labels, handles)), **legend}
        axes[0].set_ylabel("overlap")
        title = None if (temperature, margin) == (0.5, 0.0) else f"T = {temperature:g}, κ = {signed(margin)}"
        names = sorted(legend, key=lambda label: ("exchange" in label, "self" not in label))
        drawing.legend([legend[name] for name in names], names, loc="outside upper center", ncols=4, title=title)
        n_sweeps, n_extra = MIXING_SWEEPS[size]
        count = f"{instances[size]} instance{'s' * (instances[size] > 1)}"
        note = (
            f"{chains[size]} chains, τ from 1 to 0 in {n_sweeps} sweeps, then {n_extra} at τ = 0; self: a chain's "
            f"overlap with its own draw {n_extra // 2} sweeps earlier; {count} a point; bars: one "
            "standard error; filled: called mixed; crosses: some draws miss constraints"
        )
        return Picture(drawing, table, note=note)

    return Figure("self and cross overlap of chains on real images", picture, specs)


def _mixing_table(results: Results) -> list[Values]:
    names = ("self_overlap", "self_overlap_error", "cross_overlap", "cross_overlap_error", "memory", "memory_error",
             "lag", "missed", "rhat", "solved_fraction", "fair", "within", "rungs", "round_trips", "verdict")  # fmt: skip
    table = []
    for row in results.rows(kind="mixing"):
        about = {name: row.task[name] for name in ("data", "features", "alpha", "instance")}
        exchange = bool(row.task["options"].get("exchange"))
        table.append({**about, "exchange": exchange, **{name: row.values.get(name) for name in names}})
    return table
