"""Appendix: real images. The fraction of instances solved against the load, for three methods.

One row of panels for each preprocessing, since the paper does not say which was used: *centred* rows have stabilities
of standard deviation 1, *raw* ones are pixels/255. A panel for each number of sweeps, or for each number of features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from solspace.data.catalogue import data_set
from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import steps
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
BY = ("preprocess", "n_sweeps", "n", "method", "alpha")


def pixels(name: str, data: str, sizes: Sizes) -> Figure:
    """Return the figure of a data set's own pixels; `sizes` maps a size to sweeps: (loads, instances)."""
    known = data_set(data)

    def make(temperature: float = 0.5, margin: float = 0.0) -> Figure:
        def specs(size: str) -> list[ImageSpec]:
            return [
                ImageSpec(data, alphas, (sweeps,), preprocess=PREPROCESS, instances=instances, temperature=temperature,
                          margin=margin)
                for sweeps, (alphas, instances) in sizes[size].items()
            ]  # fmt: skip

        def draw(results: Results, size: str) -> Picture:
            panels = [(f"{sweeps} sweeps", {"n_sweeps": sweeps}) for sweeps in sizes[size]]
            heading = f"{_title(data)}, N = {known.pixels}"
            return _picture(results, panels, heading, temperature, margin)

        return Figure(name, f"{known.title}: instances solved", "appendix", draw, specs)

    return adjustable(make)


def projected(name: str, data: str, sizes: Sizes) -> Figure:
    """Return the figure of random features with N sweeps; `sizes` maps a size to features: (loads, instances)."""

    def make(temperature: float = 0.5, margin: float = 0.0) -> Figure:
        def specs(size: str) -> list[ImageSpec]:
            return [
                ImageSpec(data, alphas, ("n",), features=(n,), preprocess=PREPROCESS, instances=instances,
                          temperature=temperature, margin=margin)
                for n, (alphas, instances) in sizes[size].items()
            ]  # fmt: skip

        def draw(results: Results, size: str) -> Picture:
            panels = [(f"N = {n} features, N sweeps", {"n": n}) for n in sizes[size]]
            return _picture(results, panels, f"random linear features of {_title(data)}", temperature, margin)

        return Figure(name, f"{data_set(data).title}: instances of random features solved", "appendix", draw, specs)

    return adjustable(make)


def _title(data: str) -> str:
    known = data_set(data)
    return f"{known.title.split(',')[0]} {known.classes[0]} against {known.classes[1]}"


def _picture(
    results: Results, panels: Sequence[tuple[str, Values]], heading: str, temperature: float, margin: float
) -> Picture:
    from solspace.plots import style, sweeps

    table = results.mean("solved_fraction", by=BY)
    for point in table:
        point["label"] = LABELS[point["method"]].format(f"{temperature:g}")
    heading += "" if margin == 0 else f", κ = {signed(margin)}"
    with style.style():
        across, down = len(panels), len(PREPROCESS)
        tall = across > 3  # more than fit into a page side by side
        figure, axes = style.panels(
            *((down, 4.4, 2.8, across) if tall else (across, 4.4, 3.4, down)), sharey=True, squeeze=False
        )
        axes = axes.T if tall else axes
        for row, preprocess in zip(axes, PREPROCESS):
            for ax, (title, common) in zip(row, panels):
                chosen = {"preprocess": preprocess, **common}.items()
                sweeps.success([p for p in table if chosen <= p.items()], ax, series="label", label="{}")
                ax.set_title(f"{title}, {preprocess} pixels")
        sweeps.legend_above(figure, axes.flat, heading)
        counts = sorted({point["instances"] for point in table})
        some = "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else "no"
        sweeps.note(
            figure,
            f"{some} instances a point, one chain each, solved: no constraint missed at the end of the schedule; "
            "bars: one-sigma Wilson intervals over instances",
        )
    return Picture(figure, table)


PIXELS: Sizes = {  # number of sweeps: (loads, instances); N = 784
    "quick": {100: (steps(0.2, 0.8, 0.1), 10), 784: (steps(0.3, 0.7, 0.2), 4)},
    "paper": dict.fromkeys((100, 784), (steps(0.1, 1.0, 0.05), 100)),
}
COLOURS: Sizes = {  # N = 3072
    "quick": {100: (steps(0.05, 0.2, 0.05), 4), 300: (steps(0.1, 0.2, 0.1), 3)},
    "paper": dict.fromkeys((1000, 3000), (steps(0.05, 0.5, 0.025), 100)),
}
FEATURES: Sizes = {  # number of features: (loads, instances)
    "quick": {32: (steps(0.4, 1.6, 0.3), 30), 64: (steps(0.4, 1.6, 0.3), 20), 256: (steps(0.4, 1.2, 0.4), 8)},
    "paper": dict.fromkeys((32, 64), (steps(0.2, 2.0, 0.1), 100))
    | dict.fromkeys((1024, 2048), (steps(0.2, 1.4, 0.1), 100)),
}
FIGURES = (
    pixels("mnist", "mnist", PIXELS),
    projected("mnist-features", "mnist", FEATURES),
    pixels("fashion", "fashion", PIXELS),
    projected("fashion-features", "fashion", FEATURES),
    pixels("cifar10", "cifar10", COLOURS),
)
