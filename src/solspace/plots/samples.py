"""Pictures of samples, beside the exact law or theory, and of their diagnosis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch
from matplotlib.ticker import MultipleLocator
from scipy.stats import binom

from solspace.diagnostics.comparison import last_draws
from solspace.diagnostics.report import SIGMAS
from solspace.info import AnnealingInfo, LocalizationInfo
from solspace.numerics.arrays import Reals
from solspace.numerics.series import bins, pair_products, spacing
from solspace.plots.style import BLUE, GREY, RED, drawing, histogram, mark_margin, merged, one_or_all, thick
from solspace.samples import Samples, chains_of

if TYPE_CHECKING:
    from solspace.diagnostics.report import Report
    from solspace.theory.prediction import Prediction

VISIBLE = 1e-6  # least probability that is drawn
WIDE = 30.0  # deviations beyond this are drawn on a logarithmic axis


def stability_histogram(samples: Samples, ax: Axes, prediction: Prediction | None = None, **style: Any) -> None:
    """Draw the histogram of all stabilities, with P(s) by theory."""
    values = samples.stabilities.ravel()
    edges = bins(values, samples.target.margin, spacing(values, samples.n))
    histogram(ax, values, edges, style, label=f"{len(samples)} samples")
    if prediction is not None:
        grid = np.linspace(edges[0], edges[-1], 400)
        ax.plot(grid, prediction.stability_density(grid), color=RED, lw=thick(), label="theory")
    mark_margin(ax, samples.target.margin)
    ax.set(xlabel="stability $s$", ylabel="density", title="stabilities")
    ax.legend(frameon=False)


def overlap_histogram(
    samples: Samples, ax: Axes, prediction: Prediction | None = None, reference: Samples | None = None, **style: Any
) -> None:
    """Draw the histogram of the overlaps of all pairs (of chains: at their last draws), with theory's r and a reference."""
    seen, other = (
        np.empty(0) if one is None else pair_products(last_draws(one.weights, chains_of(one))) / one.n
        for one in (samples, reference)
    )
    if len(seen):
        low, high = min([*seen, *other]), max([*seen, *other])
        edges = np.linspace(low, max(high, low + 1e-3), min(30, max(6, len(seen) // 6)))
        look = histogram(ax, seen, edges, style, label=f"{len(seen)} pairs")
        ax.axvline(float(seen.mean()), color=look["color"], lw=thick(), label=f"mean {seen.mean():.3f}")
        if len(other):
            histogram(ax, other, edges, histtype="step", color=RED, alpha=1.0, lw=thick(), label="chains")
            ax.axvline(float(other.mean()), color=RED, lw=thick(), ls="--", label=f"mean {other.mean():.3f}")
    if prediction is not None:
        ax.axvline(prediction.overlap, color=RED, lw=thick(), label=f"theory r = {prediction.overlap:.3f}")
    ax.set(xlabel="overlap of two samples", ylabel="density", title="overlaps")
    if len(seen) or prediction is not None:  # Matplotlib warns of a legend without entries
        ax.legend(frameon=True, framealpha=0.8, edgecolor="none", loc="upper left")
        ax.set_ylim(0, 1.4 * ax.get_ylim()[1])


def stability_bars(samples: Samples, ax: Axes, lattice: Reals, mass: Reals) -> Axes:
    """Draw the frequency of each stability beside its exact probability.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    lattice, mass : ndarray
        (j,) possible stabilities and their probabilities, as `Enumeration.stability_distribution` returns.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    width = 0.8 * (np.diff(lattice).min() if len(lattice) > 1 else 1.0)
    _bars(ax, samples.stabilities, width, f"{len(samples)} samples", lattice, mass)
    mark_margin(ax, samples.target.margin)
    ax.set(xlabel="stability $s$", ylabel="probability", title="stabilities")
    ax.legend(frameon=False)
    return ax


def overlap_bars(samples: Samples, ax: Axes, overlaps: Reals, mass: Reals) -> Axes:
    """Draw the frequency of each overlap of two samples beside its exact probability.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    overlaps, mass : ndarray
        (j,) possible overlaps and their probabilities, as `Enumeration.overlap_distribution` returns.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    seen = samples.overlaps()
    _bars(ax, seen, 0.8 * 2 / samples.n, f"{len(seen)} pairs", overlaps, mass)
    ax.set(xlabel="overlap of two samples", ylabel="probability", title="overlaps")
    ax.legend(frameon=False)
    return ax


def _bars(ax: Axes, seen: Reals, width: float, label: str, lattice: Reals, mass: Reals) -> None:
    if seen.size:
        values, counts = np.unique(seen.round(9), return_counts=True)
        ax.bar(values, counts / counts.sum(), width=width, color=BLUE, alpha=0.55, label=label)
    ax.plot(lattice[mass > VISIBLE], mass[mass > VISIBLE], "o", color=RED, label="exact")


def overlap_outlines(overlaps: Mapping[str, Reals], means: Mapping[str, float], n: int, ax: Axes) -> None:
    """Draw overlaps (by name) of several kinds of ±1 samples of `n` weights as outlines with their means."""
    everything, step = np.concatenate(list(overlaps.values())), 2 / n
    low, high = (float(np.quantile(everything, share)) for share in (0.001, 0.999))
    width = step * np.ceil((high - low) / 25 / step)  # overlaps lie on a lattice of 2/n
    edges = np.arange(-1 - step / 2 + width * np.floor((low + 1) / width), high + width, width)
    for (name, seen), colour in zip(overlaps.items(), (GREY, RED, BLUE)):
        kind, alpha = ("stepfilled", 0.35) if colour == GREY else ("step", 1.0)
        label = f"{name}: {means[name]:.3f}"
        histogram(ax, seen, edges, color=colour, lw=2, label=label, histtype=kind, alpha=alpha)
        ax.axvline(means[name], color=colour, lw=1.5, ls="--")
    ax.set(xlabel="overlap of two samples", ylabel="density")
    ax.legend(frameon=False, loc="upper left", fontsize="small")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])


def overlap_run(samples: Samples, ax: Axes, prediction: Prediction | None = None, **style: Any) -> None:
    """Draw |m|²/n along a localization, with q(t) by theory."""
    t = samples.info["t"]
    look = merged(style, color=BLUE, alpha=0.35, lw=1)
    label = look.pop("label", r"$|m|^2/n$, each sample")
    first, *_ = ax.plot(t, samples.info["overlap"], **look)
    first.set_label(label)
    if prediction is not None:
        grid = np.linspace(0, float(np.nanmax(t)), 200)
        ax.plot(grid, prediction.overlap_at(grid), color=RED, lw=thick(), label="theory $q(t)$")
    if np.nanmax(t) > 100:
        ax.set_xscale("symlog", linthresh=0.1)
    ax.set(xlabel="time $t$", ylabel="overlap", title="path of the overlap", ylim=(None, 1.02))
    ax.legend(frameon=False, loc="lower right")


def energy_run(samples: Samples, ax: Axes, **style: Any) -> None:
    """Draw the energy per constraint and the acceptance of annealed chains against the sweep."""
    sweeps = np.arange(1, samples.info["energy"].shape[1] + 1)
    look = merged(style, color=BLUE, alpha=0.35, lw=1)
    label = look.pop("label", "energy")
    ax.plot(sweeps, samples.info["energy"].T / samples.m, **look)
    ax.set(xlabel="sweep", ylabel="energy per constraint", title="annealing")
    other = ax.twinx()
    other.plot(sweeps, samples.info["acceptance"].T, color=GREY, alpha=0.25, lw=1)
    other.set(ylabel="acceptance", ylim=(0, 1))
    other.grid(False)
    ax.plot([], [], color=look["color"], label=label)
    ax.plot([], [], color=GREY, label="acceptance")
    ax.legend(frameon=False, loc="center right")


def sample_pictures(
    samples: Samples, prediction: Prediction | None = None, reference: Samples | None = None
) -> dict[str, Callable[..., None]]:
    """Return the pictures of samples that apply, by name: functions of axes and properties of lines."""
    pictures: dict[str, Callable[..., None]] = {
        "stabilities": partial(stability_histogram, samples, prediction=prediction),
        "overlaps": partial(overlap_histogram, samples, prediction=prediction, reference=reference),
    }
    if isinstance(samples.info, LocalizationInfo):
        pictures["path"] = partial(overlap_run, samples, prediction=prediction)
    if isinstance(samples.info, AnnealingInfo):
        pictures["energy"] = partial(energy_run, samples)
    return pictures


def plot_samples(
    samples: Samples, kind: str, ax: Any, prediction: Prediction | None, reference: Samples | None, **style: Any
) -> Any:
    if len(samples) == 0:
        raise ValueError("there is no sample to draw.")
    if reference is not None and (why := samples.differs(reference)):
        raise ValueError(f"reference must be samples of the same problem and target, but {why}.")
    where = f"{samples.target}, n = {samples.n}, α = {samples.m / samples.n:.3g}"
    title = f"{samples.info.sampler or 'samples'}: {where}, {int(samples.solved.sum())} of {len(samples)} solved"
    return one_or_all(sample_pictures(samples, prediction, reference), kind, ax, title, **style)


def report_deviations(report: Report, ax: Any, **style: Any) -> Axes:
    """Draw the deviation of each quantity of a diagnosis in units of its error; beyond the band it is a bias."""
    found = report.deviations()
    values = np.array(list(found.values()))
    far = float(np.abs(values).max(initial=SIGMAS))
    reach = 1.15 * max(far, 1.6 * SIGMAS)
    low = -reach if values.min(initial=0.0) < -SIGMAS else -1.6 * SIGMAS
    verdict = report.verdict.partition(":")[0]
    if report.within is not None and "within" not in verdict:
        verdict += f", fair within {report.within:.3g}"
    with drawing(ax) as one:
        one.axvspan(-SIGMAS, SIGMAS, color=GREY, alpha=0.15, lw=0, label="chance")
        one.axvline(0, color=GREY, lw=0.8)
        for inside, colour, marker in ((True, BLUE, "o"), (False, RED, "X")):
            rows = np.flatnonzero((np.abs(values) <= SIGMAS) == inside)
            one.plot(values[rows], rows, **merged(style, color=colour, marker=marker, ms=5, ls=""))
        if far > WIDE:
            one.set_xscale("symlog", linthresh=2 * SIGMAS)
        else:
            one.xaxis.set_major_locator(MultipleLocator(SIGMAS if far < 5 * SIGMAS else 2 * SIGMAS))
        one.set(xlim=(low, reach), ylim=(max(len(found), 1) - 0.5, -0.5), xlabel=f"deviation (bias beyond ±{SIGMAS:g})")
        one.set_yticks(range(len(found)), list(found))
        if not found:
            one.text(0.5, 0.5, "nothing to compare with", ha="center", transform=one.transAxes)
        one.set_title(f"{report.n_solved} of {report.n_samples} solved\n{verdict}")
        return one


def rank_histograms(
    positions: Mapping[str, Reals], p_values: Mapping[str, float], bins: int, ax: Any, **style: Any
) -> Any:
    """Draw how often a teacher has which rank among samples, as `positions` in [0, 1], with the band of 95% for each bar."""
    count = len(next(iter(positions.values())))
    with drawing(ax, len(positions)) as axes:
        panels, look = np.atleast_1d(axes), merged(style, Patch, color=BLUE, alpha=0.55)
        low, high = binom.ppf([0.025, 0.975], count, 1 / bins)
        for one, (name, position) in zip(panels, positions.items()):
            one.axhspan(low, high, color=GREY, alpha=0.2, lw=0, label="95% if fair")
            one.axhline(count / bins, color=GREY, lw=0.8)
            height, edges = np.histogram(position, bins, (0, 1))
            one.bar(edges[:-1], height, width=1 / bins, align="edge", **look)
            one.set(xlabel=f"rank in {name}", xlim=(0, 1), title=f"p = {p_values[name]:.2g}")
        panels[0].set_ylabel("teachers")
        panels[0].legend(frameon=False, loc="lower left")
        return panels
