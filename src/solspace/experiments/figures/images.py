"""Figures on real images: success of annealing (appendix of the paper), and whether sampling stays fair (beyond it)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from solspace.data.catalogue import data_set
from solspace.experiments.figures import Content, at_temperature, drawn_by, register, signed
from solspace.experiments.figures.random_patterns import steps
from solspace.experiments.images import ImageSpec
from solspace.system.plain import Values

PREPROCESS = ("centred", "raw")
# size -> number of sweeps, or of features: (loads, instances)
Sizes = Mapping[str, Mapping[int, tuple[Sequence[float], int]]]


def success(
    data: str, sizes: Sizes, features: bool, size: str, temperature: float = 0.5, margin: float = 0.0
) -> Content:
    """Return the figure of the fraction of instances solved by three methods, a panel for each key of `sizes`.

    Keys are numbers of sweeps on the pixels, or numbers of random features with as many sweeps. There is a row of panels for
    each preprocessing, since the paper does not state which was used.
    """
    known, count, words = data_set(data), "n" if features else "n_sweeps", "N = {} features, N" if features else "{}"
    specs = [
        ImageSpec(data, alphas, ("n" if features else key,), features=(key if features else None,), margin=margin,
                  preprocess=PREPROCESS, instances=instances, temperature=temperature)
        for key, (alphas, instances) in sizes[size].items()
    ]  # fmt: skip
    rows: list[dict[str, Values]] = [
        {f"{words.format(key)} sweeps, {own} pixels": {"preprocess": own, count: key} for key in sizes[size]}
        for own in PREPROCESS
    ]
    labels = {
        "tau": rf"τ-annealing, $-\log s$, T = {temperature:g}",
        "errors": r"annealing $T$ on $\Theta(-s)$",
        "hinge": r"annealing $T$ on $-s\,\Theta(-s)$",
    }
    name = f"{known.title.split(',')[0]} {known.classes[0]} against {known.classes[1]}"
    heading = f"random linear features of {name}" if features else f"{name}, N = {known.pixels}"
    changed = f", κ = {signed(margin)}" if margin else ""
    return Content(drawn_by("images", rows, labels, heading + changed), specs)


PIXELS: Sizes = {  # N = 784
    "quick": {100: (steps(0.2, 0.8, 0.1), 10), 784: (steps(0.3, 0.7, 0.2), 4)},
    "paper": dict.fromkeys((100, 784), (steps(0.1, 1.0, 0.05), 100)),
}
COLOURS: Sizes = {  # N = 3072
    "quick": {100: (steps(0.05, 0.2, 0.05), 4), 300: (steps(0.1, 0.2, 0.1), 3)},
    "paper": dict.fromkeys((1000, 3000), (steps(0.05, 0.5, 0.025), 100)),
}
FEATURES: Sizes = {
    "quick": {
        32: (steps(0.4, 1.6, 0.3), 30),
        64: (steps(0.4, 1.6, 0.3), 20),
        256: (steps(0.4, 1.2, 0.4), 8),
    },
    "paper": dict.fromkeys((32, 64), (steps(0.2, 2.0, 0.1), 100))
    | dict.fromkeys((1024, 2048), (steps(0.2, 1.4, 0.1), 100)),
}
for _name, _data, _sizes in (
    ("mnist", "mnist", PIXELS), ("mnist-features", "mnist", FEATURES), ("fashion", "fashion", PIXELS),
    ("fashion-features", "fashion", FEATURES), ("cifar10", "cifar10", COLOURS),
):  # fmt: skip
    _shown = f"{data_set(_data).title}: instances {'of random features ' * (_sizes is FEATURES)}solved"
    register(_name, "appendix", _shown)(partial(success, _data, _sizes, _sizes is FEATURES))


class Panel(NamedTuple):
    """A data set, its pixels or random features of them, and the loads; `exchange`: whether replicas are exchanged too."""

    data: str
    alphas: tuple[float, ...]
    features: int | None = None
    exchange: bool = True

    @property
    def n(self) -> int:
        return self.features or data_set(self.data).pixels

    @property
    def title(self) -> str:
        return f"{data_set(self.data).title.split(',')[0]}, " + (
            f"N = {self.features} features" if self.features else f"{self.n} pixels"
        )

    def holds(self, task: Mapping[str, object]) -> bool:
        return (task["data"], task["features"]) == (self.data, self.features)


FAIR = {
    "quick": (Panel("mnist", (0.3,)), Panel("fashion", (0.25,)), Panel("mnist", (0.5,), 200)),
    "paper": (Panel("mnist", (0.4,)), Panel("fashion", (0.3,)), Panel("mnist", (0.5,), 400)),
}
FAIR_OPTIONS: dict[str, Values] = {
    "chains": {},
    "AMP": {"denoiser": "amp", "device": "cpu", "finish": 0},  # with a variance for every constraint it has no device
    "EP, and a draw in the field": {"denoiser": "ep"},
}


def spec(panel: Panel, kind: str, options: Values, temperature: float, margin: float, **more: object) -> ImageSpec:
    return ImageSpec(
        panel.data, panel.alphas, features=(panel.features,), kind=kind, options=tuple(sorted(options.items())),
        temperature=temperature, margin=margin, **more,  # type: ignore[arg-type]
    )  # fmt: skip


@register("fair-on-images", "beyond the paper", "overlaps of samples of real images: chains, AMP, EP")
def fair_on_images(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    chains, samples, sweeps = {"quick": (64, 32, 400), "paper": (1056, 128, 2000)}[size]
    by_chains: Values = {"n_sweeps": (sweeps,), "methods": ("tau",), "n_samples": chains}
    localized: Values = {"n_sweeps": (None,), "methods": ("asl",), "n_samples": samples}
    more: Values = {"n_extra": sweeps, "thin": sweeps // 20}
    specs = [
        spec(panel, "overlaps", options or more, temperature, margin, **(localized if options else by_chains))
        for panel in FAIR[size]
        for options in FAIR_OPTIONS.values()
    ]
    changed = "" if (temperature, margin) == (0.5, 0.0) else at_temperature(temperature, margin)
    note = (
        f"overlaps of pairs: {chains} chains, τ from 1 to 0 in {sweeps} sweeps and as many at τ = 0; "
        f"{samples} localized samples each; dashed: means" + f"; {changed}" * bool(changed)
    )
    return Content(drawn_by("overlaps", FAIR[size], FAIR_OPTIONS, changed, note), specs)


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
MIXING_SWEEPS = {"quick": (200, 400), "paper": (1000, 2000)}  # from τ = 1 to 0, and at τ = 0


@register("mixing", "beyond the paper", "self and cross overlap of chains on real images")
def mixing(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    (chains, instances), (n_sweeps, n_extra) = {"quick": (8, 1), "paper": (16, 3)}[size], MIXING_SWEEPS[size]
    common: Values = {"n_sweeps": (n_sweeps,), "methods": ("tau",), "instances": instances, "n_samples": chains}
    plain: Values = {"n_extra": n_extra, "thin": n_extra // 40}
    kinds = {False: "plain chains", True: "with exchange"}
    specs = [
        spec(panel, "mixing", plain | ({"exchange": True} if exchange else {}), temperature, margin, **common)
        for exchange in kinds
        for panel in MIXING[size]
        if panel.exchange or not exchange
    ]
    title = None if (temperature, margin) == (0.5, 0.0) else at_temperature(temperature, margin)
    note = (
        f"{chains} chains, τ from 1 to 0 in {n_sweeps} sweeps, then {n_extra} at τ = 0; self: a chain's "
        f"overlap with its own draw {n_extra // 2} sweeps earlier; {instances} instance{'s' * (instances > 1)} a point; "
        "bars: one standard error; filled: called mixed; crosses: some draws miss constraints"
    )
    return Content(drawn_by("mixing", MIXING[size], kinds, title, note), specs)
