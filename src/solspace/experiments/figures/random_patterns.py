"""Figures on random patterns: those of the paper, and others on temperatures, solvers, and the symmetric perceptron.

The paper's loads are shown; for other parameters, loads that show the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from solspace.experiments.figures import LOCALIZE, TEMPERATURES, Content, at_temperature, drawn_by, register, signed
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import theory_task, thresholds_of, windows_at
from solspace.measure import Target
from solspace.measure.potentials import LogBand
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.thresholds import Thresholds

LOG = Target("binary", "log", temperature=0.5)
LOG_STOPS = 0.651417  # the load at which ASL stops for `LOG`
SIZES = {"quick": [201, 501, 1001], "paper": [501, 1001, 2001, 5001, 10001]}


def steps(start: float, stop: float, step: float) -> tuple[float, ...]:
    return tuple(round(start + i * step, 6) for i in range(round((stop - start) / step) + 1))


def denser(first: float, start: float, width: float, count: int) -> list[float]:
    """Return the loads of a t–α diagram: the first, and `count` from `start` on, denser close to it."""
    return [first, *(start + width * np.linspace(0, 1, count) ** 2).tolist()]


def fractions(parts: Sequence[float], whole: float) -> tuple[float, ...]:
    """Return these fractions of `whole`, to four digits."""
    return tuple(float(f"{part * whole:.4g}") for part in parts)


@lru_cache(maxsize=32)
def limits(target: Target) -> Thresholds:
    from solspace.theory.thresholds import thresholds

    return thresholds(target)


@lru_cache(maxsize=32)
def telling_times(target: Target, alpha: float) -> tuple[float, ...]:
    """Return the times at which the maxima of φ_t(q) compete, to four digits."""
    from solspace.theory.prediction import predict

    return fractions(predict(target, alpha).telling_times, 1.0)


def rescaled(loads: Sequence[float], target: Target, paper: Target) -> tuple[float, ...]:
    """Return the paper's `loads` for the target `paper` at the same fractions of the capacity of `target`.

    >>> rescaled([0.4, 0.5], Target(temperature=0.7), Target()), rescaled([0.4, 0.5], Target(margin=0.5), Target())
    ((0.4, 0.5), (0.2188, 0.2735))
    """
    if (target.margin, target.potential) == (paper.margin, paper.potential):
        return tuple(loads)
    return fractions([load / _capacity(paper) for load in loads], _capacity(target))


def _capacity(target: Target) -> float:
    from solspace.theory.capacity import capacity

    if (found := capacity(target)) is None:
        words = "the constraints have solutions at every load"
        raise ValueError(f"this figure shows loads up to capacity; {target}: {words}.")
    return found


def sampled(target: Target) -> float:
    """Return the load up to which ASL samples `target`; raise ValueError if there is none, or no end."""
    load = limits(target).asl
    if not load:
        where = "at no load" if load == 0 else "at every load"
        raise ValueError(f"this figure shows loads around the one at which ASL stops; {target}: it samples {where}.")
    return load


def around(target: Target, count: int) -> list[float]:
    """Return loads of a t–α diagram around the cusp of its window of two maxima, or all where it has no cusp."""
    found = limits(target)
    ends = [end for end in (found.dat, found.zero_entropy, found.capacity_rs, found.capacity) if end]
    if not found.asl or found.cusp_time is None:  # red at every load, or green up to the end
        last = min(ends) if ends else 1.0
        return np.linspace(0.03 * last, 0.97 * last, count).tolist()
    last = found.asl + 0.9 * ((ends[0] if ends else 1.2 * found.asl) - found.asl)
    width = last - found.asl
    return denser(found.asl - 0.6 * width, found.asl * (1 + 1e-6), width, count)


@register("spherical-free-entropy", "Fig. 1 left", "φ_t(q) of the spherical perceptron, κ = −2.5, α = 278")
def spherical_free_entropy(size: str, margin: float = -2.5, alpha: float = 278.0) -> Content:
    """The paper's times lie around its window of two maxima, others where their own maxima compete."""
    target, changed = Target("spherical", "uniform", margin=margin), (margin, alpha) != (-2.5, 278.0)
    times = telling_times(target, alpha) if changed else (0.0, 0.015, 0.025, 0.036297, 0.042, 0.055)
    view: Values = {} if changed else {"xlim": (0.1, 1.0), "ylim": (-0.012, 0.008)}
    return Content(
        drawn_by("free_entropy", f"spherical, $U = 0$, κ = {signed(margin)}, α = {alpha:g}", **view),
        theory=[theory_task("free-entropy", target, alpha=alpha, times=list(times))],
    )


def t_alpha(target: Target, paper: Target, alphas: Sequence[float], top: float, heading: str) -> Content:
    """Return a t–α diagram: that of the target `paper` at `alphas`, up to time `top`; others around their own window."""
    own = target == paper
    return Content(
        drawn_by("t_alpha", target, top if own else None, heading),
        theory=[*thresholds_of(target), *windows_at(target, alphas if own else around(target, len(alphas) - 1))],
    )


@register("spherical-t-alpha", "Fig. 1 centre", "t–α diagram of the spherical perceptron, κ = −2.5")
def spherical_t_alpha(size: str, margin: float = -2.5) -> Content:
    cusp, count = 269.735956, {"quick": 24, "paper": 120}[size]
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.5))
    alphas = denser(250.0, cusp + 1e-4, 300 - cusp, count)
    return t_alpha(target, paper, alphas, 0.1, f"spherical, $U = 0$, κ = {signed(margin)}")


@register("spherical-alpha-kappa", "Fig. 1 right", "the loads that ASL samples at each margin, spherical")
def spherical_alpha_kappa(size: str) -> Content:
    """All transition lines of the sphere under the uniform measure; the inset shows where ASL stops before the others."""
    zoom, step = (-2.64, -2.28), {"quick": 0.2, "paper": 0.05}[size]
    fine, coarse = np.arange(zoom[0], zoom[1] + 0.01, step / 5), np.arange(-3.0, -0.1, step)
    margins = sorted({*np.round(coarse, 6), *np.round(fine, 6)})
    theory = thresholds_of(Target("spherical", "uniform"), margins)
    return Content(drawn_by("alpha_kappa", "spherical, $U = 0$", zoom), theory=theory)


@register("binary-t-alpha", "Fig. 2 left", "t–α diagram of the binary perceptron, log potential, T = 0.5")
def binary_t_alpha(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    alphas = denser(0.6, LOG_STOPS + 1e-6, 0.72 - LOG_STOPS, {"quick": 20, "paper": 100}[size])
    heading = rf"binary, $U = -\log s$, {at_temperature(temperature, margin)}"
    return t_alpha(Target("binary", "log", temperature, margin), LOG, alphas, 0.6, heading)


def stabilities(
    target: Target, sizes: Mapping[float, tuple[int, int, int]], low: float, high: float, heading: str,
    sampler: object = LOCALIZE,
) -> Content:  # fmt: skip
    """Return stabilities from `low` to `high`; sizes are {load: (N, instances, samples of each)}."""
    specs = [
        Spec(name="stabilities", n=n, alpha=alpha, target=target, sampler=sampler, n_samples=samples,
             instances=instances, keep=["stabilities", "violations"])
        for alpha, (n, instances, samples) in sizes.items()
    ]  # fmt: skip
    theory = [theory_task("stabilities", target, alpha=alpha, low=low, high=high) for alpha in sizes]
    return Content(drawn_by("stabilities", heading), specs, theory)


@register("binary-stabilities", "Fig. 2 right", "stabilities of ASL samples against P(s), N = 5000")
def binary_stabilities(size: str, temperature: float = 0.5, margin: float = 0.0, alpha: float = 0.3) -> Content:
    sizes = {alpha: {"quick": (5000, 4, 4), "paper": (5000, 16, 16)}[size]}
    heading = rf"binary, $U = -\log s$, {at_temperature(temperature, margin)}"
    return stabilities(Target("binary", "log", temperature, margin), sizes, margin - 0.2, margin + 5.5, heading)


def annealed(
    size: str, sampler: Values, target: Target, start: float, stop: float, n: Sequence[int] | None = None
) -> Spec:
    """Return a sweep of annealing at loads from `start` to `stop`, at other margins the same fractions of the capacity."""
    step, instances = {"quick": (0.05, 40), "paper": (0.025, 100)}[size]
    alphas = rescaled(steps(start, stop, step), target, LOG)
    return Spec(n=n or SIZES[size], alpha=alphas, target=target, sampler=sampler, instances=instances)


@register("mcmc-comparison", "Fig. 3", "success of τ- and temperature annealing after 100 sweeps")
def mcmc_comparison(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    heat, tau = (Target("binary", "log", one, margin) for one in (0.5, temperature))
    panels: dict[str, Values] = {
        r"annealing $T$: 1 → 0 on $-s\,\Theta(-s)$": {"sampler": "temperature"},
        rf"annealing $\tau$: 1 → 0, log potential at T = {temperature:g}": {"sampler": "tau"},
    }
    samplers = [{"name": name, "n_sweeps": 100} for name in ("temperature", "tau")]
    specs = [annealed(size, sampler, target, 0.05, 0.7) for sampler, target in zip(samplers, (heat, tau))]
    heading = f"100 sweeps of Metropolis on the binary perceptron, κ = {signed(margin)}"
    return Content(drawn_by("annealing", panels, heading), specs, thresholds_of(tau))


@register("spherical-stabilities", "appendix", "stabilities of ASL samples against P(s), κ = −2.1")
def spherical_stabilities(size: str, margin: float = -2.1) -> Content:
    """Stabilities on the sphere; other margins have loads at the same fractions of the one at which ASL stops."""
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.1))
    counts = {"quick": ((1001, 4, 4), (1001, 4, 4), (501, 2, 4)), "paper": ((1001, 10, 16),) * 3}[size]
    alphas: tuple[float, ...] = (5.0, 20.0, 80.0)
    if target != paper:
        alphas = fractions([load / sampled(paper) for load in alphas], sampled(target))
    high, heading = max(5.5, margin + 5.5), f"spherical, $U = 0$, κ = {signed(margin)}"
    return stabilities(target, dict(zip(alphas, counts)), margin - 0.3, high, heading, {"name": "asl"})


@register("sphere-wall", "not in the paper", "stabilities on the sphere next to the margin")
def sphere_wall(size: str) -> Content:
    """The density of stabilities next to a wall: of rescaled means, of localized samples, and of chains, by theory."""
    n, instances, samples, extra = {"quick": (201, 8, 16, 1600), "paper": (1001, 10, 32, 8000)}[size]
    chains = {"name": "temperature", "n_sweeps": 100, "n_extra": extra, "thin": 40}
    loads_of = {0.0: 0.5, -1.5: 8.0} if size == "paper" else {0.0: 0.5, -1.0: 3.0}
    targets = {margin: Target("spherical", "uniform", margin=margin) for margin in loads_of}
    specs = [
        Spec(name="sphere-wall", n=n, alpha=loads_of[margin], target=target, n_samples=samples, instances=instances,
             sampler=[LOCALIZE, {"name": "asl"}, chains], keep=["stabilities", "violations"])
        for margin, target in targets.items()
    ]  # fmt: skip
    theory = [
        theory_task("stabilities", target, alpha=loads_of[margin], low=margin, high=margin + 0.2)
        for margin, target in targets.items()
    ]
    return Content(drawn_by("sphere_wall", "spherical, $U = 0$, ±1 patterns"), specs, theory)


@register("binary-uniform", "appendix", "φ_t(q) and t–α diagram of the binary perceptron, U = 0")
def binary_uniform(size: str, margin: float = 0.0, alpha: float = 0.5) -> Content:
    """φ_t(q), which has a maximum at q = 1 at all times, and t–α diagram of binary weights under the uniform measure."""
    target, changed = Target("binary", "uniform", margin=margin), (margin, alpha) != (0.0, 0.5)
    grid = np.linspace(0.02, 0.9, {"quick": 24, "paper": 100}[size])
    columns = windows_at(target, rescaled(grid.tolist(), target, Target("binary", "uniform")))
    times = telling_times(target, alpha) if changed else (0.0, 1.0, 2.0, 2.3009, 2.6, 3.2)
    curves = theory_task("free-entropy", target, alpha=alpha, times=list(times))
    top, heading = 12 if margin == 0 else None, f"binary, $U = 0$, κ = {signed(margin)}"
    picture = drawn_by("binary_uniform", target, top, heading, inset=not changed)
    return Content(picture, theory=[curves, *thresholds_of(target), *columns])


@register("asl-success", "appendix", "success of ASL against the load, and its threshold")
def asl_success(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    target = Target("binary", "log", temperature, margin)
    # the paper has 250 simulations a point, each on its own instance
    alphas, n, instances = {
        "quick": ((0.4, 0.5, 0.55, 0.6, 0.65, 0.7), [201, 501, 1001], 12),
        "paper": (steps(0.3, 0.75, 0.025), [501, 1001, 2001, 5001], 250),
    }[size]
    if target != LOG:
        alphas = fractions([load / LOG_STOPS for load in alphas], sampled(target))
    spec = Spec(name="asl-success", target=target, sampler=LOCALIZE, n=n, alpha=alphas, instances=instances)
    heading = rf"ASL, binary perceptron, $U = -\log s$, {at_temperature(temperature, margin)}"
    return Content(drawn_by("asl_success", heading), [spec], thresholds_of(target))


def by_sweeps(size: str, heading: str, schedule: str, target: Target, start: float, stop: float) -> Content:
    """Return the figure of one schedule, with a panel for each number of sweeps: fixed ones, and as many as weights."""
    counts: list[object] = {"quick": [10, 100], "paper": [10, 100, 1000]}[size]  # type: ignore[assignment]
    few = [n for n in SIZES[size] if n <= 5001]  # beyond, N sweeps cost more than all the others
    specs = [
        annealed(size, {"name": schedule, "n_sweeps": counts}, target, start, stop),
        annealed(size, {"name": schedule, "n_sweeps": "n"}, target, start, stop, few),
    ]
    panels = {f"{count} sweeps": {"sampler": schedule, "sweeps": count} for count in [*counts, "N"]}
    theory = thresholds_of(target) if schedule == "tau" else ()
    return Content(drawn_by("annealing", panels, heading), specs, theory)


@register("tau-annealing", "appendix", "success of τ-annealing for several numbers of sweeps")
def tau_annealing(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    heading = f"τ-annealing of the binary perceptron, log potential at {at_temperature(temperature, margin)}"
    return by_sweeps(size, heading, "tau", Target("binary", "log", temperature, margin), 0.1, 0.7)


@register("temperature-annealing", "appendix", "success of temperature annealing for several numbers of sweeps")
def temperature_annealing(size: str, margin: float = 0.0) -> Content:
    heading = rf"annealing $T$ from 1 to 0 on $U = -s\,\Theta(-s)$, binary perceptron, κ = {signed(margin)}"
    return by_sweeps(size, heading, "temperature", LOG.replace(margin=margin), 0.05, 0.5)


@register("edge", "appendix", "dφ/dq near q = 1 for finite and diverging potentials")
def edge(size: str, alpha: float = 0.5, margin: float = 0.0) -> Content:
    """dφ_t/dq near q = 1, where a maximum at every time prevents localization, unless U diverges fast enough at the margin."""
    flat, *divergent = (
        Target(potential=name, temperature=temperature, margin=margin)
        for name, temperature in (("uniform", 0.5), *(("log", t) for t in (2.0, 1.25, 0.8, 0.5, 1 / 3)))
    )
    targets = {"a maximum at $q = 1$": [flat, *divergent[:2]], "no maximum at $q = 1$": divergent[2:]}
    return Content(
        drawn_by("edge", targets, f"binary perceptron, κ = {signed(margin)}, α = {alpha:g}"),
        theory=[theory_task("edge", target, alpha=alpha) for target in (flat, *divergent)],
    )


@register("threshold-temperature", "ours", "ASL's threshold against T, AMP's convergence, and success")
def threshold_temperature(size: str, margin: float = 0.0) -> Content:
    """The load that ASL reaches against the temperature of the log potential; AMP's instability λ along runs; success.

    Other margins have loads at the same fractions of the one at which ASL stops at T = 0.5.
    """
    shown = 0.64  # the load of the panel in the centre
    n, samples, instances, alphas, count = {
        "quick": (1001, 1, 8, [0.56, 0.6, shown, 0.68], 8),
        "paper": (10001, 8, 20, [*steps(0.56, 0.72, 0.02)], 36),
    }[size]
    target = Target("binary", "log", 0.5, margin)
    if margin != 0:
        *alphas, shown = fractions([load / LOG_STOPS for load in (*alphas, shown)], sampled(target))
    heats = np.round(np.linspace(0.3, 1.0, count), 6).tolist()
    theory = [task for heat in heats for task in thresholds_of(target.replace(temperature=heat))]
    theory += [theory_task("instability", target.replace(temperature=heat), alpha=shown) for heat in TEMPERATURES]
    spec = Spec(
        name="threshold-temperature", n=n, alpha=alphas, target=target, temperature=TEMPERATURES,
        sampler={**LOCALIZE, "accuracy": "careful"}, n_samples=samples, instances=instances, keep=["path"],
    )  # fmt: skip
    heading = rf"binary perceptron, $U = -\log s$, κ = {signed(margin)}"
    return Content(drawn_by("threshold_temperature", heading), [spec], theory)


@register("solvers", "not in the paper", "how far and how fast solutions are found")
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
    specs = [
        Spec(alpha=rescaled(alphas, half, LOG), target=half, sampler=samplers, **common),
        Spec(alpha=bands, target=band, sampler=solve, **common),
    ]
    heading = "" if half == LOG else at_temperature(temperature, margin)
    heat = "" if temperature == 0.5 else f", samplers at T = {temperature:g}"
    note = f"±1 patterns, κ = {signed(margin)}{heat}, at most {limit:g} s for solve"
    # the capacity is drawn, which does not depend on the potential
    return Content(drawn_by("solvers", n, heading, note), specs, thresholds_of(half))


def band_potential(width: float) -> str:
    return rf"$U = -\log({'1' if width == 1 else f'{width:g}^2'} - s^2)$"


@register("symmetric-t-alpha", "ours", "t–α diagram of the symmetric perceptron, walls at ±1, T = 0.7")
def symmetric_t_alpha(size: str, temperature: float = 0.7, width: float = 1.0) -> Content:
    cusp, count = 1.139089, {"quick": 16, "paper": 80}[size]
    target, paper = Target("binary", LogBand(width), temperature), Target("binary", "log_band(1)", 0.7)
    alphas = denser(1.05, cusp + 1e-6, 1.3 - cusp, count)
    return t_alpha(target, paper, alphas, 0.4, f"symmetric, {band_potential(width)}, T = {temperature:g}")


@register("symmetric-threshold", "ours", "ASL's threshold in the symmetric perceptron against T and the width")
def symmetric_threshold(size: str) -> Content:
    widths = (0.5, 0.8, 1.0, 1.5)
    heats = np.round(np.linspace(0.3, 0.95, {"quick": 6, "paper": 40}[size]), 6).tolist()
    targets = [Target("binary", f"log_band({width})", heat) for width in widths for heat in heats]
    picture = drawn_by("symmetric_threshold", widths, r"symmetric perceptron, $U = -\log(K^2 - s^2)$")
    return Content(picture, theory=[task for target in targets for task in thresholds_of(target)])


@register("symmetric-success", "ours", "samples of the symmetric perceptron inside the band, by ASL and τ-annealing")
def symmetric_success(size: str, width: float = 1.0) -> Content:
    """Other bands have loads at the same fractions of capacity."""
    n, instances, step, stop, sweeps = {
        "quick": (301, 8, 0.2, 1.4, [10, 100]),
        "paper": (1001, 50, 0.05, 1.6, [10, 100, 1000]),
    }[size]
    target, paper = (Target("binary", LogBand(band), 0.5) for band in (width, 1.0))
    hot, alphas = target.replace(temperature=0.7), rescaled(steps(0.6, stop, step), target, paper)
    common: Values = {"name": "symmetric-success", "n": n, "instances": instances, "alpha": alphas}
    specs = [
        Spec(target=target, temperature=TEMPERATURES, sampler="asl", **common),
        Spec(target=hot, sampler={"name": "tau", "n_sweeps": sweeps}, **common),
    ]
    picture = drawn_by("symmetric_success", width, f"symmetric perceptron, {band_potential(width)}")
    return Content(picture, specs, [*thresholds_of(target), *thresholds_of(hot)])
