"""The figures of the paper on random patterns: binary and spherical weights, theory and samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from solspace.experiments.figures import (
    LOCALIZE,
    Content,
    and_margin,
    at_temperature,
    drawn_by,
    loads,
    register,
    signed,
)
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import theory_task, thresholds_of, windows_at
from solspace.measure import Target
from solspace.system.plain import Values

LOG = Target("binary", "log", temperature=0.5)
LOG_STOPS = 0.651417
"""The load at which ASL stops for `LOG`."""


@register("spherical-free-entropy", "Fig. 1 left")
def spherical_free_entropy(size: str, margin: float = -2.5, alpha: float = 278.0) -> Content:
    """φ_t(q) of the sphere; the paper's times lie around its window of two maxima, others where their own maxima compete."""
    target, changed = Target("spherical", "uniform", margin=margin), (margin, alpha) != (-2.5, 278.0)
    times = loads.telling_times(target, alpha) if changed else (0.0, 0.015, 0.025, 0.036297, 0.042, 0.055)
    view: Values = {} if changed else {"xlim": (0.1, 1.0), "ylim": (-0.012, 0.008)}
    about = f"κ = {signed(margin)}, α = {alpha:g}"
    return Content(
        f"φ_t(q) of the spherical perceptron, {about}",
        drawn_by("free_entropy", f"spherical, $U = 0$, {about}", **view),
        theory=[theory_task("free-entropy", target, alpha=alpha, times=list(times))],
    )


def t_alpha(
    title: str, target: Target, paper: Target, alphas: Sequence[float], *, top: float, heading: str
) -> Content:  # fmt: skip
    """Return a t–α diagram: that of the target `paper` at `alphas`, up to time `top`; others around their own window."""
    own = target == paper
    return Content(
        f"t–α diagram of the {title}",
        drawn_by("t_alpha", target, top if own else None, heading),
        theory=[*thresholds_of(target), *windows_at(target, alphas if own else loads.around(target, len(alphas) - 1))],
    )


@register("spherical-t-alpha", "Fig. 1 centre")
def spherical_t_alpha(size: str, margin: float = -2.5) -> Content:
    cusp, count = 269.735956, {"quick": 24, "paper": 120}[size]
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.5))
    return t_alpha(
        f"spherical perceptron, κ = {signed(margin)}", target, paper, loads.denser(250.0, cusp + 1e-4, 300 - cusp, count),
        top=0.1, heading=f"spherical, $U = 0$, κ = {signed(margin)}",
    )  # fmt: skip


@register("spherical-alpha-kappa", "Fig. 1 right")
def spherical_alpha_kappa(size: str) -> Content:
    """All transition lines of the sphere under the uniform measure; the inset shows where ASL stops before the others."""
    zoom, step = (-2.64, -2.28), {"quick": 0.2, "paper": 0.05}[size]
    fine, coarse = np.arange(zoom[0], zoom[1] + 0.01, step / 5), np.arange(-3.0, -0.1, step)
    margins = sorted({*np.round(coarse, 6), *np.round(fine, 6)})
    return Content(
        "the loads that ASL samples at each margin, spherical",
        drawn_by("alpha_kappa", "spherical, $U = 0$", zoom),
        theory=thresholds_of(Target("spherical", "uniform"), margins),
    )


@register("binary-t-alpha", "Fig. 2 left")
def binary_t_alpha(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    alphas = loads.denser(0.6, LOG_STOPS + 1e-6, 0.72 - LOG_STOPS, {"quick": 20, "paper": 100}[size])
    return t_alpha(
        f"binary perceptron, log potential, T = {temperature:g}{and_margin(margin)}",
        Target("binary", "log", temperature, margin), LOG, alphas,
        top=0.6, heading=rf"binary, $U = -\log s$, {at_temperature(temperature, margin)}",
    )  # fmt: skip


Sizes = Mapping[float, tuple[int, int, int]]
"""Load -> (N, instances, samples of each)."""


def stabilities(title: str, target: Target, sizes: Sizes, interval: tuple[float, float], heading: str) -> Content:
    low, high = interval
    specs = [
        Spec(name="stabilities", n=n, alpha=alpha, target=target, sampler=LOCALIZE, n_samples=samples,
             instances=instances, keep=["stabilities", "violations"])
        for alpha, (n, instances, samples) in sizes.items()
    ]  # fmt: skip
    theory = [theory_task("stabilities", target, alpha=alpha, low=low, high=high) for alpha in sizes]
    return Content(f"stabilities of ASL samples against P(s), {title}", drawn_by("stabilities", heading), specs, theory)


@register("binary-stabilities", "Fig. 2 right")
def binary_stabilities(size: str, temperature: float = 0.5, margin: float = 0.0, alpha: float = 0.3) -> Content:
    sizes = {alpha: {"quick": (5000, 4, 4), "paper": (5000, 16, 16)}[size]}
    heading = rf"binary, $U = -\log s$, {at_temperature(temperature, margin)}"
    target = Target("binary", "log", temperature, margin)
    return stabilities("N = 5000", target, sizes, (margin - 0.2, margin + 5.5), heading)


SIZES = {"quick": [201, 501, 1001], "paper": [501, 1001, 2001, 5001, 10001]}


def annealed(
    size: str, sampler: Values, target: Target, start: float, stop: float, n: Sequence[int] | None = None
) -> Spec:
    """Return a sweep of annealing at loads from `start` to `stop`, at other margins the same fractions of the capacity."""
    step, instances = {"quick": (0.05, 40), "paper": (0.025, 100)}[size]
    alphas = loads.rescaled(loads.steps(start, stop, step), target, LOG)
    return Spec(n=n or SIZES[size], alpha=alphas, target=target, sampler=sampler, instances=instances)


@register("mcmc-comparison", "Fig. 3")
def mcmc_comparison(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    heat, tau = (Target("binary", "log", one, margin) for one in (0.5, temperature))
    panels: dict[str, Values] = {
        r"annealing $T$: 1 → 0 on $-s\,\Theta(-s)$": {"sampler": "temperature"},
        rf"annealing $\tau$: 1 → 0, log potential at T = {temperature:g}": {"sampler": "tau"},
    }
    specs = [
        annealed(size, {"name": name, "n_sweeps": 100}, target, 0.05, 0.7)
        for name, target in (("temperature", heat), ("tau", tau))
    ]
    heading = f"100 sweeps of Metropolis on the binary perceptron, κ = {signed(margin)}"
    title = "success of τ- and temperature annealing after 100 sweeps"
    return Content(title, drawn_by("annealing", panels, heading), specs, thresholds_of(tau))


@register("spherical-stabilities", "appendix")
def spherical_stabilities(size: str, margin: float = -2.1) -> Content:
    """Stabilities on the sphere; other margins have loads at the same fractions of the one at which ASL stops."""
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.1))
    counts = {"quick": ((1001, 4, 4), (1001, 4, 4), (501, 2, 4)), "paper": ((1001, 10, 16),) * 3}[size]
    alphas: tuple[float, ...] = (5.0, 20.0, 80.0)
    if target != paper:
        alphas = loads.fractions([load / loads.sampled(paper) for load in alphas], loads.sampled(target))
    interval, about = (margin - 0.3, max(5.5, margin + 5.5)), f"κ = {signed(margin)}"
    return stabilities(about, target, dict(zip(alphas, counts)), interval, f"spherical, $U = 0$, {about}")


@register("binary-uniform", "appendix")
def binary_uniform(size: str, margin: float = 0.0, alpha: float = 0.5) -> Content:
    """φ_t(q), which has a maximum at q = 1 at all times, and t–α diagram of binary weights under the uniform measure."""
    target, changed = Target("binary", "uniform", margin=margin), (margin, alpha) != (0.0, 0.5)
    grid = np.linspace(0.02, 0.9, {"quick": 24, "paper": 100}[size])
    columns = windows_at(target, loads.rescaled(grid.tolist(), target, Target("binary", "uniform")))
    times = loads.telling_times(target, alpha) if changed else (0.0, 1.0, 2.0, 2.3009, 2.6, 3.2)
    heading = f"binary, $U = 0$, κ = {signed(margin)}"
    return Content(
        f"φ_t(q) and t–α diagram of the binary perceptron, U = 0{and_margin(margin)}",
        drawn_by("binary_uniform", target, 12 if margin == 0 else None, heading, inset=not changed),
        theory=[
            theory_task("free-entropy", target, alpha=alpha, times=list(times)), *thresholds_of(target), *columns
        ],
    )  # fmt: skip


@register("asl-success", "appendix")
def asl_success(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    target = Target("binary", "log", temperature, margin)
    # the paper has 250 simulations a point, each on its own instance
    alphas, n, instances = {
        "quick": ((0.4, 0.5, 0.55, 0.6, 0.65, 0.7), [201, 501, 1001], 12),
        "paper": (loads.steps(0.3, 0.75, 0.025), [501, 1001, 2001, 5001], 250),
    }[size]
    if target != LOG:
        alphas = loads.fractions([load / LOG_STOPS for load in alphas], loads.sampled(target))
    heading = rf"ASL, binary perceptron, $U = -\log s$, {at_temperature(temperature, margin)}"
    return Content(
        "success of ASL against the load, and its threshold",
        drawn_by("asl_success", heading),
        [Spec(name="asl-success", target=target, sampler=LOCALIZE, n=n, alpha=alphas, instances=instances)],
        thresholds_of(target),
    )


def by_sweeps(size: str, title: str, heading: str, schedule: str, target: Target, start: float, stop: float) -> Content:
    """Return the figure of one schedule, with a panel for each number of sweeps: fixed ones, and as many as weights."""
    counts: list[object] = {"quick": [10, 100], "paper": [10, 100, 1000]}[size]  # type: ignore[assignment]
    few = [n for n in SIZES[size] if n <= 5001]  # beyond, N sweeps cost more than all the others
    specs = [
        annealed(size, {"name": schedule, "n_sweeps": counts}, target, start, stop),
        annealed(size, {"name": schedule, "n_sweeps": "n"}, target, start, stop, few),
    ]
    panels = {f"{count} sweeps": {"sampler": schedule, "sweeps": count} for count in [*counts, "N"]}
    theory = thresholds_of(target) if schedule == "tau" else ()
    title = f"success of {title} for several numbers of sweeps"
    return Content(title, drawn_by("annealing", panels, heading), specs, theory)


@register("tau-annealing", "appendix")
def tau_annealing(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    heading = f"τ-annealing of the binary perceptron, log potential at {at_temperature(temperature, margin)}"
    target = Target("binary", "log", temperature, margin)
    return by_sweeps(size, "τ-annealing", heading, "tau", target, 0.1, 0.7)


@register("temperature-annealing", "appendix")
def temperature_annealing(size: str, margin: float = 0.0) -> Content:
    heading = rf"annealing $T$ from 1 to 0 on $U = -s\,\Theta(-s)$, binary perceptron, κ = {signed(margin)}"
    target = LOG.replace(margin=margin)
    return by_sweeps(size, "temperature annealing", heading, "temperature", target, 0.05, 0.5)


@register("edge", "appendix")
def edge(size: str, alpha: float = 0.5, margin: float = 0.0) -> Content:
    """dφ_t/dq near q = 1, where a maximum at every time prevents localization, unless U diverges fast enough at the margin."""
    temperatures = {"a maximum at $q = 1$": (None, 2.0, 1.25), "no maximum at $q = 1$": (0.8, 0.5, 1 / 3)}
    targets = {
        title: [Target(potential="uniform", margin=margin) if t is None else Target(temperature=t, margin=margin) for t in own]
        for title, own in temperatures.items()
    }  # fmt: skip
    return Content(
        "dφ/dq near q = 1 for finite and diverging potentials",
        drawn_by("edge", targets, f"binary perceptron, κ = {signed(margin)}, α = {alpha:g}"),
        theory=[theory_task("edge", target, alpha=alpha) for own in targets.values() for target in own],
    )
