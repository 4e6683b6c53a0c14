"""Fair samples of real images: overlaps of two samples by mixed chains, and by localization with AMP and with EP.

AMP's samples, localized to the end as the paper does, are too much alike; expectation propagation and a draw in the field
give what the chains give.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from solspace.data.catalogue import data_set
from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.system.plain import Values


class Panel(NamedTuple):
    """A data set, its pixels or features of them, and the load."""

    data: str
    alpha: float
    features: int | None = None

    @property
    def title(self) -> str:
        """What the panel shows."""
        what = f"N = {self.features} features" if self.features else f"{data_set(self.data).pixels} pixels"
        return f"{data_set(self.data).title.split(',')[0]}, {what}, α = {self.alpha:g}"


PANELS = {
    "quick": (Panel("mnist", 0.3), Panel("fashion", 0.25), Panel("mnist", 0.5, 200)),
    "paper": (Panel("mnist", 0.4), Panel("fashion", 0.3), Panel("mnist", 0.5, 400)),
}
SAMPLES = {"quick": 32, "paper": 128}
CHAINS = {"quick": 64, "paper": 1056}
SWEEPS = {"quick": 400, "paper": 2000}
LINES: dict[str, Values] = {
    "chains": {},
    "AMP": {"denoiser": "amp", "device": "cpu", "finish": 0},
    "EP, and a draw in the field": {"denoiser": "ep"},
}
"""What is compared, with its options of `localize`; AMP with a variance for every constraint knows no device."""


def _spec(panel: Panel, size: str, name: str, temperature: float, margin: float) -> ImageSpec:
    chains = name == "chains"
    options = {"n_extra": SWEEPS[size], "thin": SWEEPS[size] // 20} if chains else LINES[name]
    return ImageSpec(
        panel.data, (panel.alpha,), (SWEEPS[size] if chains else None,), features=(panel.features,),
        methods=("tau" if chains else "asl",), options=tuple(sorted(options.items())),
        n_samples=CHAINS[size] if chains else SAMPLES[size], kind="overlaps", temperature=temperature, margin=margin,
    )  # fmt: skip


def _draw(results: Results, size: str, note: str) -> Picture:
    """Return a panel of histograms for each data set."""
    from solspace.plots import style, sweeps
    from solspace.plots.samples import overlap_outlines

    rows, table = list(results.rows(arrays=True, kind="overlaps")), []
    with style.style():
        figure, axes = style.panels(len(PANELS[size]), width=4.0, height=3.5)
        for ax, panel in zip(axes, PANELS[size]):
            own = {
                _name(row.task): row
                for row in rows
                if (row.task["data"], row.task["features"]) == (panel.data, panel.features)
            }
            seen = {name: own[name].arrays["overlaps"] for name in LINES if name in own}
            means = {name: own[name].values["overlap"] for name in seen}
            overlap_outlines(seen, means, panel.features or data_set(panel.data).pixels, ax)
            ax.set_title(panel.title)
            table += [
                {
                    "data": panel.data,
                    "features": panel.features,
                    "alpha": panel.alpha,
                    "sampler": name,
                    **_line(own[name].values),
                }
                for name in seen
            ]
        sweeps.note(figure, _note(size) + note)
        if note:
            figure.suptitle(note.removeprefix("; "))
    return Picture(figure, table)


def _name(task: Values) -> str:
    if task["sampler"] == "tau":
        return "chains"
    return next(
        name for name, options in LINES.items() if options and options["denoiser"] == task["options"]["denoiser"]
    )


def _line(values: Values) -> Values:
    names = ("overlap", "overlap_error", "self_overlap", "solved_fraction", "verdict")
    return {name: values.get(name) for name in names}


def _note(size: str) -> str:
    return (
        f"overlaps of pairs: {CHAINS[size]} chains, τ from 1 to 0 in {SWEEPS[size]} sweeps and as many at τ = 0; "
        f"{SAMPLES[size]} localized samples each; dashed: means"
    )


def figure(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure of any temperature and margin."""
    note = "" if (temperature, margin) == (0.5, 0.0) else f"; T = {temperature:g}, κ = {signed(margin)}"

    def specs(size: str) -> list[ImageSpec]:
        return [_spec(panel, size, name, temperature, margin) for panel in PANELS[size] for name in LINES]

    words = "overlaps of samples of real images: chains, AMP, EP"
    return Figure("fair-on-images", words, "beyond the paper", lambda results, size: _draw(results, size, note), specs)


FIGURES: Sequence[Figure] = (adjustable(figure),)
