"""Pictures of samples: their stabilities and overlaps beside what the exact law or theory says."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from solspace.info import AnnealingInfo, LocalizationInfo
from solspace.numerics.arrays import Reals
from solspace.numerics.bins import bins, spacing
from solspace.plots.style import BLUE, GREY, RED, merged, thick
from solspace.samples import Samples

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

VISIBLE = 1e-6
"""Least probability that is drawn."""


def stability_histogram(
    samples: Samples, ax: Axes, density: Callable[[Reals], Reals] | None = None, **style: Any
) -> Axes:
    """Draw the histogram of all stabilities with the density of fair samples.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    density : callable or ndarray, optional
        P(s) for comparison.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    values = samples.stabilities.ravel()
    edges = bins(values, samples.target.margin, spacing(values, samples.n))
    look = merged(style, Patch, color=BLUE, alpha=0.55, label=f"{len(samples)} samples")
    ax.hist(values, **{"bins": list(edges), "density": True, **look})
    if density is not None:
        grid = np.linspace(edges[0], edges[-1], 400)
        ax.plot(grid, density(grid), color=RED, lw=thick(), label="theory")
    ax.axvline(samples.target.margin, color=GREY, lw=1, ls="--", label=f"margin {samples.target.margin:g}")
    ax.set(xlabel="stability $s$", ylabel="density", title="stabilities")
    ax.legend(frameon=False)
    return ax


def stability_bars(samples: Samples, ax: Axes, lattice: Reals, mass: Reals) -> Axes:
    """Draw the frequency of each stability beside its exact probability.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    lattice : ndarray
        (j,) possible stabilities.
    mass : ndarray
        (j,) their exact probabilities.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    values, counts = np.unique(samples.stabilities.round(9), return_counts=True)
    width = 0.8 * (np.diff(lattice).min() if len(lattice) > 1 else 1.0)
    ax.bar(values, counts / counts.sum(), width=width, color=BLUE, alpha=0.55, label=f"{len(samples)} samples")
    ax.plot(lattice[mass > VISIBLE], mass[mass > VISIBLE], "o", color=RED, label="exact")
    ax.axvline(samples.target.margin, color=GREY, lw=1, ls="--", label=f"margin {samples.target.margin:g}")
    ax.set(xlabel="stability $s$", ylabel="probability", title="stabilities")
    ax.legend(frameon=False)
    return ax


def overlap_bars(samples: Samples, ax: Axes, overlaps: Reals, mass: Reals) -> Axes:
    """Draw the overlaps of all pairs of samples beside their exact law.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    overlaps : ndarray or mapping of str to ndarray
        Overlaps of pairs, by name where there are several kinds.
    mass : ndarray
        (j,) their exact probabilities.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    seen = np.round(samples.overlaps(), 9)
    width = 0.8 * 2 / samples.n
    if len(seen):
        values, counts = np.unique(seen, return_counts=True)
        ax.bar(values, counts / counts.sum(), width=width, color=BLUE, alpha=0.55, label=f"{len(seen)} pairs")
    ax.plot(overlaps[mass > VISIBLE], mass[mass > VISIBLE], "o", color=RED, label="exact")
    ax.set(xlabel="overlap of two samples", ylabel="probability", title="overlaps")
    ax.legend(frameon=False)
    return ax


def overlap_histogram(
    samples: Samples, ax: Axes, overlap: float | None = None, chains: Samples | None = None, **style: Any
) -> Axes:
    """Draw the histogram of the overlaps of all pairs of samples (of chains: at their last draws).

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    overlap : float, optional
        Theory's r, to be marked.
    chains : Samples, optional
        Other samples of the problem, drawn as an outline.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    seen, other = _pairs(samples), np.empty(0) if chains is None else _pairs(chains)
    if len(seen):
        low, high = min([*seen, *other]), max([*seen, *other])
        bins = np.linspace(low, max(high, low + 1e-3), min(30, max(6, len(seen) // 6)))
        look = merged(style, Patch, color=BLUE, alpha=0.55, label=f"{len(seen)} pairs")
        ax.hist(seen, **{"bins": list(bins), "density": True, **look})
        ax.axvline(float(seen.mean()), color=look["color"], lw=thick(), label=f"mean {seen.mean():.3f}")
        if len(other):
            ax.hist(other, bins=list(bins), density=True, histtype="step", color=RED, lw=thick(), label="chains")
            ax.axvline(float(other.mean()), color=RED, lw=thick(), ls="--", label=f"mean {other.mean():.3f}")
    if overlap is not None:
        ax.axvline(overlap, color=RED, lw=thick(), label=f"theory r = {overlap:.3f}")
    ax.set(xlabel="overlap of two samples", ylabel="density", title="overlaps")
    if len(seen) or overlap is not None:  # Matplotlib warns of a legend without entries
        ax.legend(frameon=True, framealpha=0.8, edgecolor="none", loc="upper left")
        ax.set_ylim(0, 1.4 * ax.get_ylim()[1])
    return ax


def overlap_outlines(overlaps: Mapping[str, Reals], means: Mapping[str, float], n: int, ax: Axes) -> Axes:
    """Draw the overlaps of several kinds of ±1 samples as outlines with their means.

    Parameters
    ----------
    overlaps : ndarray or mapping of str to ndarray
        Overlaps of pairs, by name where there are several kinds.
    means : mapping of str to float
        Mean overlaps by name.
    n : int
        Number of weights.
    ax : matplotlib.axes.Axes
        Axes to draw on.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    everything, step = np.concatenate(list(overlaps.values())), 2 / n
    low, high = (float(np.quantile(everything, share)) for share in (0.001, 0.999))
    width = step * np.ceil((high - low) / 25 / step)  # overlaps lie on a lattice of 2/n
    bins = np.arange(-1 - step / 2 + width * np.floor((low + 1) / width), high + width, width)
    for (name, seen), colour in zip(overlaps.items(), (GREY, RED, BLUE)):
        first = colour == GREY
        ax.hist(seen, bins=list(bins), density=True, histtype="stepfilled" if first else "step", color=colour,
                alpha=0.35 if first else 1.0, lw=2, label=f"{name}: {means[name]:.3f}")  # fmt: skip
        ax.axvline(means[name], color=colour, lw=1.5, ls="--")
    ax.set(xlabel="overlap of two samples", ylabel="density")
    ax.legend(frameon=False, loc="upper left", fontsize="small")
    ax.set_ylim(0, 1.35 * ax.get_ylim()[1])
    return ax


def _pairs(samples: Samples) -> Reals:
    """Return the overlaps of all pairs of samples, of chains at their last draws."""
    chains = np.arange(len(samples)) if samples.info.chains is None else np.asarray(samples.info.chains)
    rows = len(chains) - 1 - np.unique(chains[::-1], return_index=True)[1]
    last = samples.weights[rows].astype(float)
    return np.asarray((last @ last.T / samples.n)[np.triu_indices(len(last), 1)])


def overlap_run(samples: Samples, ax: Axes, prediction: Prediction | None = None, **style: Any) -> Axes:
    """Draw |m|²/n along a localization, with q(t).

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    prediction : Prediction, optional
        Prediction to draw.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    t, q = samples.info["t"], samples.info["overlap"]
    look = merged(style, color=BLUE, alpha=0.35, lw=1)
    label = look.pop("label", r"$|m|^2/n$, each sample")
    ax.plot(t, q, **look)
    ax.plot([], [], **look, label=label)
    if prediction is not None:
        grid = np.linspace(0, float(np.nanmax(t)), 200)
        ax.plot(grid, prediction.overlap_at(grid), color=RED, lw=thick(), label="theory $q(t)$")
    if np.nanmax(t) > 100:
        ax.set_xscale("symlog", linthresh=0.1)
    ax.set(xlabel="time $t$", ylabel="overlap", title="path of the overlap", ylim=(None, 1.02))
    ax.legend(frameon=False, loc="lower right")
    return ax


def energy_run(samples: Samples, ax: Axes, **style: Any) -> Axes:
    """Draw the energy per constraint and the acceptance of annealed chains against the sweep.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
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
    return ax


def sample_kinds(samples: Samples) -> list[str]:
    """Return the names of the pictures of samples that apply; the last depends on the sampler.

    Parameters
    ----------
    samples : Samples
        Samples to draw.

    Returns
    -------
    list of str
        Among "stabilities", "overlaps", "path" and "energy".

    Examples
    --------
    >>> import solspace as ss
    >>> sample_kinds(ss.anneal(ss.Perceptron.random(n=51, alpha=0.2, rng=0), n_chains=2, n_sweeps=20, rng=0))
    ['stabilities', 'overlaps', 'energy']
    """
    run = {LocalizationInfo: ["path"], AnnealingInfo: ["energy"]}
    return ["stabilities", "overlaps", *run.get(type(samples.info), [])]


def sample_panel(
    samples: Samples,
    ax: Axes,
    kind: str,
    prediction: Prediction | None = None,
    chains: Samples | None = None,
    **style: Any,
) -> Axes:
    """Draw one picture of samples.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    kind : str
        One of `sample_kinds(samples)`.
    prediction : Prediction, optional
        Prediction to draw.
    chains : Samples, optional
        Other samples of the problem, drawn as an outline.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    if kind == "stabilities":
        return stability_histogram(samples, ax, None if prediction is None else prediction.stability_density, **style)
    if kind == "overlaps":
        return overlap_histogram(samples, ax, None if prediction is None else prediction.overlap, chains, **style)
    return overlap_run(samples, ax, prediction, **style) if kind == "path" else energy_run(samples, ax, **style)


def sample_panels(
    samples: Samples, axes: Sequence[Axes], prediction: Prediction | None = None, chains: Samples | None = None
) -> Any:
    """Draw all pictures of samples that apply.

    Parameters
    ----------
    samples : Samples
        Samples to draw.
    axes : sequence of Axes
        Axes to draw on, one for each panel.
    prediction : Prediction, optional
        Prediction to draw.
    chains : Samples, optional
        Other samples of the problem, drawn as an outline.

    Returns
    -------
    ndarray of Axes
        The axes.
    """
    for ax, kind in zip(axes, sample_kinds(samples)):
        sample_panel(samples, ax, kind, prediction, chains)
    figure = axes[0].get_figure()
    assert figure is not None
    figure.suptitle(
        f"{samples.info.sampler or 'samples'}: {samples.target}, n = {samples.n}, α = {samples.m / samples.n:.3g}, "
        f"{int(samples.solved.sum())} of {len(samples)} solved"
    )
    return axes
