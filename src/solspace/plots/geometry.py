"""Pictures of the geometry of solutions: their number against the distance, ways between them, how far chains travel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from solspace.numerics.arrays import Reals
from solspace.plots.style import BLUE, GREY, RED, SERIES, drawing, merged, thick

if TYPE_CHECKING:
    from solspace.geometry.local_entropy import LocalEntropy
    from solspace.geometry.paths import Barrier, Displacement
    from solspace.theory.franz_parisi import FranzParisi

DISTANCE = "distance $d = (1 - p)/2$"


def distance_curves(ax: Axes, distances: Reals, values: Reals, **style: Any) -> None:
    """Draw log numbers per weight (j,) or (k, j) against distances."""
    ax.plot(distances, np.atleast_2d(values).T, **style)


def _axes(ax: Axes, discrete: bool, title: str) -> None:
    ax.axhline(0, color=GREY, lw=1, ls="--")
    what = "number" if discrete else "volume"
    ax.set(xlabel=DISTANCE, ylabel=f"log {what} of solutions / $n$", title=title)


def plot_franz_parisi(curve: FranzParisi, ax: Any, **style: Any) -> Axes:
    with drawing(ax) as one:
        distance_curves(one, curve.distances, curve.values, **merged(style, color=RED, lw=thick(), label="theory"))
        _axes(one, curve.probe.prior.discrete, f"around a fair sample, α = {curve.alpha:g}" if ax is None else "")
        return one


def plot_local_entropy(found: LocalEntropy, ax: Any, theory: FranzParisi | None, **style: Any) -> Axes:
    with drawing(ax) as one:
        look = merged(style, color=BLUE, marker=".", lw=0.8)
        distance_curves(one, found.distances, found.values, **look)
        one.lines[0].set_label(f"{len(found.values)} references")
        if theory is not None:
            distance_curves(one, theory.distances, theory.values, color=RED, lw=thick(), label="theory")
        _axes(one, found.target.prior.discrete, "local entropy" if ax is None else "")
        one.legend(frameon=False)
        return one


def plot_barrier(found: Barrier, ax: Any, **style: Any) -> Axes:
    """Draw the unmet constraints, or the smallest stability, along the way; of all pairs as an image."""
    what = "unmet constraints" if found.discrete else "smallest stability"
    with drawing(ax) as one:
        if found.profile is None:
            image = one.imshow(found.worst, **{"origin": "lower", "cmap": "viridis", **style})
            one.figure.colorbar(image, ax=one, label=what)
            one.set(xlabel="solution", ylabel="solution")
            return one
        one.plot(found.positions, found.profile, **merged(style, color=BLUE))
        one.set(xlabel="share of the way", title="from one solution to the other" if ax is None else "")
        one.set_ylabel(what)
        return one


def plot_displacement(found: Displacement, ax: Any, **style: Any) -> Axes:
    """Draw the overlap of chains with their start, and theory's plateau."""
    with drawing(ax) as one:
        look = merged(style, color=SERIES[0], lw=0.8, alpha=0.6)
        one.plot(found.sweeps, found.overlaps.T, **look)
        one.plot(found.sweeps, found.overlaps.mean(axis=0), color=BLUE, lw=thick(), label="mean of chains")
        if found.plateau is not None:
            one.axhline(found.plateau, color=RED, ls="--", label=f"theory, r = {found.plateau:.4g}")
        one.set(xlabel="sweeps", ylabel="overlap with the start", title="displacement" if ax is None else "")
        one.legend(frameon=False)
        return one
