"""What the figures of stabilities share: pooled samples of ASL on the theory's P(s), their overlaps beside r."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from solspace.experiments.results import Results
from solspace.store import Result

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def panel(results: Results, theory: Result, ax: Axes) -> list[dict[str, Any]]:
    """Draw all samples at one load under their prediction; return the table of the histogram's numbers."""
    from solspace.plots import sweeps

    alpha, target = theory.task["alpha"], theory.task["target"]
    rows = [
        row for row in results.rows(arrays=True, kind="sample")
        if row.task["alpha"] == alpha and row.task["target"] == target
    ]  # fmt: skip
    s, density = theory.arrays["s"], theory.arrays["density"]
    lattice = 2 / np.sqrt(rows[0].task["n"]) if _on_lattice(rows[0].task) else None
    count = sum(len(row.arrays["stabilities"]) for row in rows)
    values = np.concatenate([row.arrays["stabilities"].ravel() for row in rows]).astype(float)
    sweeps.stabilities(values, ax, s, density, target["margin"], f"ASL, {count} samples", lattice)
    overlaps = np.array([row.values["overlap"] for row in rows])
    error = overlaps.std(ddof=1) / np.sqrt(len(overlaps)) if len(overlaps) > 1 else np.nan
    solved, missed = sum(row.values["solved"] for row in rows), int(sum(row.arrays["violations"].sum() for row in rows))
    words = [
        f"overlap {overlaps.mean():.4f} ± {error:.4f}",
        f"theory r = {theory.values['overlap']:.4f}",
        f"solved {solved}/{count}" + (f", {missed} constraints missed" if missed else ""),
    ]
    ax.text(0.97, 0.62, "\n".join(words), transform=ax.transAxes, ha="right", va="top", fontsize=8)
    ax.set_title(f"N = {rows[0].task['n']}, α = {alpha:g}, {len(rows)} instances")
    return _table(values, s, density, sweeps.bins(values, target["margin"], lattice), alpha)


def _on_lattice(task: dict[str, Any]) -> bool:
    return task["patterns"] == "binary" and task["target"]["prior"] == "binary"


def _table(values: Any, s: Any, density: Any, edges: Any, alpha: float) -> list[dict[str, Any]]:
    counts, _ = np.histogram(values, edges)
    width = edges[1] - edges[0]
    centres = (edges[1:] + edges[:-1]) / 2
    theory = np.interp(centres, s, density)
    return [
        {"alpha": alpha, "s": float(x), "count": int(c), "density": float(c / len(values) / width), "theory": float(p)}
        for x, c, p in zip(centres, counts, theory)
    ]
