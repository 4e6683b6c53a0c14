"""Figures on random patterns that are not in the paper: temperatures, solvers, and the symmetric perceptron."""

from __future__ import annotations

import numpy as np

from solspace.experiments.figures import (
    LOCALIZE,
    TEMPERATURES,
    Content,
    at_temperature,
    drawn_by,
    loads,
    register,
    signed,
)
from solspace.experiments.figures.paper import LOG, LOG_STOPS, t_alpha
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import theory_task, thresholds_of
from solspace.measure import Target
from solspace.measure.potentials import LogBand
from solspace.system.plain import Values


@register("threshold-temperature", "ours")
def threshold_temperature(size: str, margin: float = 0.0) -> Content:
    """The load that ASL reaches against the temperature of the log potential; AMP's instability λ along runs; success.

    Other margins have loads at the same fractions of the one at which ASL stops at T = 0.5.
    """
    shown = 0.64  # the load of the panel in the centre
    n, samples, instances, alphas, count = {
        "quick": (1001, 1, 8, [0.56, 0.6, shown, 0.68], 8),
        "paper": (10001, 8, 20, [*loads.steps(0.56, 0.72, 0.02)], 36),
    }[size]
    target = Target("binary", "log", 0.5, margin)
    if margin != 0:
        *alphas, shown = loads.fractions([load / LOG_STOPS for load in (*alphas, shown)], loads.sampled(target))
    heats = np.round(np.linspace(0.3, 1.0, count), 6).tolist()
    theory = [task for heat in heats for task in thresholds_of(target.replace(temperature=heat))]
    theory += [theory_task("instability", target.replace(temperature=heat), alpha=shown) for heat in TEMPERATURES]
    spec = Spec(
        name="threshold-temperature", n=n, alpha=alphas, target=target, temperature=TEMPERATURES,
        sampler={**LOCALIZE, "accuracy": "careful"}, n_samples=samples, instances=instances, keep=["path"],
    )  # fmt: skip
    heading = rf"binary perceptron, $U = -\log s$, κ = {signed(margin)}"
    title = "ASL's threshold against T, AMP's convergence, and success"
    return Content(title, drawn_by("threshold_temperature", heading), [spec], theory)


@register("solvers", "not in the paper")
def solvers(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    """Fraction solved and seconds of a task, by the samplers and by `solve`, on the same instances.

    Other margins have loads at the same fractions of the capacity.
    """
    half, band = Target("binary", "log", temperature, margin), Target("binary", "band(1)")
    n, instances, sweeps, limit = {"quick": ((201, 501), 8, 200, 2.0), "paper": ((1001, 10001), 20, 1000, 10.0)}[size]
    alphas, bands = {
        "quick": ([0.4, 0.5, 0.6, 0.66, 0.7, 0.74], [0.8, 1.2, 1.5]),
        "paper": ([0.4, 0.5, 0.55, 0.6, 0.64, 0.68, 0.7, 0.72, 0.74, 0.75], [1.0, 1.2, 1.4, 1.5, 1.55, 1.6]),
    }[size]
    solve = {"name": "solve", "time_limit": limit}
    samplers = ["asl", *({"name": name, "n_sweeps": sweeps} for name in ("tau-first", "temperature")), solve]
    common: Values = {"name": "solvers", "n": n, "instances": instances}
    heading = "" if half == LOG else at_temperature(temperature, margin)
    heat = "" if temperature == 0.5 else f", samplers at T = {temperature:g}"
    note = f"±1 patterns, κ = {signed(margin)}{heat}, at most {limit:g} s for solve"
    return Content(
        "how far and how fast solutions are found",
        drawn_by("solvers", n, heading, note),
        [
            Spec(alpha=loads.rescaled(alphas, half, LOG), target=half, sampler=samplers, **common),
            Spec(alpha=bands, target=band, sampler=solve, **common),
        ],
        thresholds_of(half),  # the capacity is drawn, which does not depend on the potential
    )


def square(width: float) -> str:
    return "1" if width == 1 else f"{width:g}^2"


@register("symmetric-t-alpha", "ours")
def symmetric_t_alpha(size: str, temperature: float = 0.7, width: float = 1.0) -> Content:
    cusp, count = 1.139089, {"quick": 16, "paper": 80}[size]
    return t_alpha(
        f"symmetric perceptron, walls at ±{width:g}, T = {temperature:g}",
        Target("binary", LogBand(width), temperature), Target("binary", "log_band(1)", 0.7),
        loads.denser(1.05, cusp + 1e-6, 1.3 - cusp, count),
        top=0.4, heading=rf"symmetric, $U = -\log({square(width)} - s^2)$, T = {temperature:g}",
    )  # fmt: skip


@register("symmetric-threshold", "ours")
def symmetric_threshold(size: str) -> Content:
    widths = (0.5, 0.8, 1.0, 1.5)
    heats = np.round(np.linspace(0.3, 0.95, {"quick": 6, "paper": 40}[size]), 6).tolist()
    targets = [Target("binary", f"log_band({width})", heat) for width in widths for heat in heats]
    return Content(
        "ASL's threshold in the symmetric perceptron against T and the width",
        drawn_by("symmetric_threshold", widths, r"symmetric perceptron, $U = -\log(K^2 - s^2)$"),
        theory=[task for target in targets for task in thresholds_of(target)],
    )


@register("symmetric-success", "ours")
def symmetric_success(size: str, width: float = 1.0) -> Content:
    """Samples of the symmetric perceptron inside the band; other bands have loads at the same fractions of capacity."""
    n, instances, step, stop, sweeps = {
        "quick": (301, 8, 0.2, 1.4, [10, 100]),
        "paper": (1001, 50, 0.05, 1.6, [10, 100, 1000]),
    }[size]
    target, paper = (Target("binary", LogBand(band), 0.5) for band in (width, 1.0))
    hot = target.replace(temperature=0.7)
    common: Values = {
        "name": "symmetric-success", "n": n, "instances": instances,
        "alpha": loads.rescaled(loads.steps(0.6, stop, step), target, paper),
    }  # fmt: skip
    return Content(
        "samples of the symmetric perceptron inside the band, by ASL and τ-annealing",
        drawn_by("symmetric_success", width, rf"symmetric perceptron, $U = -\log({square(width)} - s^2)$"),
        [
            Spec(target=target, temperature=TEMPERATURES, sampler="asl", **common),
            Spec(target=hot, sampler={"name": "tau", "n_sweeps": sweeps}, **common),
        ],
        [*thresholds_of(target), *thresholds_of(hot)],
    )
