"""Appendix: dφ_t/dq near q = 1 for ±1 weights, which decides whether localization can work at all.

With ε = 1 - q, dφ/dq = log ε + ... + α C(ε) ε^(-1/2). Where the potential is finite at the margin, or diverges too
slowly, the second term wins and a maximum sits at q = 1 at every time (left); U = -log s at T < 1 cures it (right).
Time adds t/2 and changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.predictions import edge_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.store import Result
from solspace.system.plain import Values

FINITE = (Target(potential="uniform"), Target(temperature=2.0), Target(temperature=1.25))
DIVERGING = (Target(temperature=0.8), Target(temperature=0.5), Target(temperature=1 / 3))


def _law(row: Result) -> Any:
    """Return log ε + ½ log log 1/ε + α C ε^-γ, set to the curve at the smallest ε: the leading terms and a constant."""
    epsilon, slope = row.arrays["epsilon"], row.arrays["slope"]
    law = np.log(epsilon) + 0.5 * np.log(np.log(1 / np.minimum(epsilon, 0.5)))
    alpha = row.task["alpha"]
    if row.values["divergence"]:
        law += alpha * row.values["constant"] * epsilon ** -row.values["divergence"]
    elif row.values["logarithmic"]:
        law += alpha * row.values["constant"] * np.log(1 / epsilon)
    return np.where(epsilon < 1e-2, law + slope[0] - law[0], np.nan)


def _table(row: Result) -> list[Values]:
    about = {"potential": row.flat()["potential"], "temperature": row.flat()["temperature"]}
    about |= {name: row.values[name] for name in ("divergence", "constant", "maximum_at_one")}
    return [
        {**about, "epsilon": float(e), "slope": float(s)} for e, s in zip(row.arrays["epsilon"], row.arrays["slope"])
    ]


def figure(alpha: float = 0.5, margin: float = 0.0) -> Figure:
    """Return the figure at any load and margin."""
    panels = [
        (title, [target.replace(margin=margin) for target in targets])
        for title, targets in (("a maximum at $q = 1$", FINITE), ("no maximum at $q = 1$", DIVERGING))
    ]

    def theory(size: str) -> Sequence[Task]:
        return [edge_of(target, alpha) for _, targets in panels for target in targets]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import diagrams, style, sweeps

        rows = list(results.rows(arrays=True, kind="edge"))
        with style.style():
            figure, axes = style.panels(2)
            for ax, (title, targets) in zip(axes, panels):
                for colour, target in zip(style.SERIES, targets):
                    (row,) = (one for one in rows if one.task["target"] == target.to_dict())
                    flat = target.potential.name == "uniform"
                    name = "$U = 0$" if flat else rf"$-\log s$, T = {target.temperature:.3g}"
                    diagrams.edge(row.arrays["epsilon"], row.arrays["slope"], ax, name, colour, _law(row))
                ax.set_title(title)
                ax.legend()
            axes[0].set_ylim(-8, 40)
            figure.suptitle(f"binary perceptron, κ = {signed(margin)}, α = {alpha:g}", fontsize=11)
            sweeps.note(
                figure, "lines: theory; dotted: its leading terms as ε → 0, with the constant fitted at the smallest ε"
            )
        return Picture(figure, [line for row in rows for line in _table(row)])

    return Figure("edge", "dφ/dq near q = 1 for finite and diverging potentials", "appendix", draw, theory=theory)


FIGURES = (adjustable(figure),)
