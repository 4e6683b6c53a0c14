"""Figures on random patterns that are not in the paper: temperatures, solvers, and the symmetric perceptron."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from solspace.experiments.figures import (
    LOCALIZE,
    Figure,
    Picture,
    fractions,
    register,
    rescaled,
    sampled,
    signed,
    steps,
)
from solspace.experiments.figures.paper import LOG, LOG_STOPS, Columns, t_alpha
from solspace.experiments.predictions import theory_task, thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.measure.potentials import LogBand
from solspace.numerics.arrays import Reals
from solspace.samplers.registry import find
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TEMPERATURES = (0.5, 0.7)


@register("threshold-temperature", "ours")
def threshold_temperature(margin: float = 0.0) -> Figure:
    """How the load that ASL reaches depends on the temperature of the log potential.

    Left: the predicted threshold, which is largest near T = 0.70, above the paper's T = 0.5. Theory predicts where message
    passing stops to converge: centre, its instability λ along the run against the overlap, measured and predicted (λ = 1 is
    where F' = 0). Success does not follow: right, the fraction solved and the fraction of calls that did not converge. Other
    margins have loads at the same fractions of the one at which ASL stops at T = 0.5.
    """
    shown = 0.64  # the load of the panel in the centre

    def target(temperature: float) -> Target:
        return Target("binary", "log", temperature, margin)

    def scaled(*loads: float) -> list[float]:
        return list(loads if margin == 0 else fractions([load / LOG_STOPS for load in loads], sampled(target(0.5))))

    def specs(size: str) -> Sequence[Spec]:
        n, samples, instances = {"quick": (1001, 1, 8), "paper": (10001, 8, 20)}[size]
        alphas = scaled(*((0.56, 0.6, shown, 0.68) if size == "quick" else steps(0.56, 0.72, 0.02)))
        return [
            Spec(name="threshold-temperature", n=n, alpha=alphas, target=target(0.5), temperature=list(TEMPERATURES),
                 sampler={**LOCALIZE, "accuracy": "careful"}, n_samples=samples, instances=instances, keep=["path"])
        ]  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        heats = np.round(np.linspace(0.3, 1.0, {"quick": 8, "paper": 36}[size]), 6)
        tasks = [task for heat in heats for task in thresholds_of(target(float(heat)))]
        return tasks + [theory_task("instability", target(heat), alpha=scaled(shown)[0]) for heat in TEMPERATURES]

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import style

        drawing, (left, centre, right) = style.panels(3, width=3.7, height=3.4)
        table = _thresholds(results, left) + _instability(results, centre) + _solved(results, right)
        task = next(results.rows(kind="sample")).task
        count = max(point.get("instances", 0) for point in table)
        samples = f"{task['n_samples']} sample" + "s" * (task["n_samples"] > 1)
        note = (
            f"N = {task['n']}, {count} instances a point with {samples} each, ±1 patterns, method careful; bars: "
            "one-sigma intervals over instances (centre: median and central two thirds of runs)"
        )
        return Picture(drawing, table, rf"binary perceptron, $U = -\log s$, κ = {signed(margin)}", note)

    return Figure("ASL's threshold against T, AMP's convergence, and success", picture, specs, theory)


def _thresholds(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots import diagrams, style

    rows = [row for row in results.rows(kind="thresholds") if row.values["asl"] is not None]
    heats = np.array([row.task["target"]["temperature"] for row in rows])
    loads = np.array([row.values["asl"] for row in rows])
    diagrams.temperature_lines(heats, {"asl": loads}, ax)
    for colour, heat in zip(style.SERIES, TEMPERATURES):
        ax.axvline(heat, color=colour, lw=0.9, ls="--")
    ax.set(ylabel=r"threshold $\alpha_\mathrm{ASL}$", title="theory: where ASL stops")
    return [{"panel": "threshold", "temperature": float(t), "alpha": float(a)} for t, a in zip(heats, loads)]


def _instability(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots import style, sweeps

    table = []
    for colour, heat in zip(style.SERIES, TEMPERATURES):
        predicted = results.rows(arrays=True, kind="instability")
        (line,) = (row for row in predicted if row.task["target"]["temperature"] == heat)
        target, shown = line.task["target"], line.task["alpha"]
        ax.plot(line.arrays["variance"], line.arrays["instability"], color=colour, label=f"theory, T = {heat:g}")
        rows = results.rows(arrays=True, kind="sample")
        runs = [r for r in rows if r.task["target"] == target and abs(r.task["alpha"] - shown) < 1e-9]
        paths = [[r.arrays[f"path_{name}"].ravel() for name in ("overlap", "instability", "converged")] for r in runs]
        points = _binned(np.concatenate(paths, axis=1), heat)
        look: Values = {"color": colour, "marker": "o", "ms": 3.5, "ls": "", "capsize": 0}
        sweeps.curves(points, ax, "temperature", "variance", f"measured, T = {heat:g}", **look)
        table += points
    ax.axhline(1, color=style.GREY, lw=0.9, ls="--")
    ax.set(xscale="log", xlabel="$1 - q$", ylabel=r"instability $\lambda$ of AMP", ylim=(0, 1.6), xlim=(0.5, 1e-4))
    ax.set_title(f"along the run, α = {shown:g}")
    ax.legend()
    return table


def _binned(measured: Reals, heat: float) -> list[Values]:
    """Return the median λ in bins of log(1 - q), the central two thirds of the runs, and the fraction not converged."""
    overlap, value, converged = measured[:, np.isfinite(measured).all(axis=0)]
    edges = np.logspace(-4, np.log10(0.5), 20)
    slot = np.digitize(1 - overlap, edges)
    table = []
    for k in range(1, len(edges)):
        inside, missed = value[slot == k], converged[slot == k] == 0
        if len(inside) >= 5:
            low, middle, high = np.quantile(inside, [1 / 6, 1 / 2, 5 / 6])
            table.append({
                "panel": "instability", "temperature": heat, "variance": float(np.sqrt(edges[k - 1] * edges[k])),
                "mean": float(middle), "low": float(low), "high": float(high),
                "unconverged": float(missed.mean()), "runs": len(inside),
            })  # fmt: skip
    return table


def _solved(results: Results, ax: Axes) -> list[Values]:
    from solspace.plots import sweeps

    by = ["temperature", "alpha"]
    solved, missed = results.mean("solved_fraction", by=by), results.mean("unconverged", by=by)
    sweeps.success(solved, ax, series="temperature", label="solved, T = {}")
    sweeps.curves(missed, ax, series="temperature", label="unconverged, T = {}", dashed=True)
    ax.set(ylabel="fraction", title="solved, and AMP calls not converged")
    ax.legend(loc="center left", fontsize=7.5)
    return [{"panel": "solved", **p} for p in solved] + [{"panel": "unconverged", **p} for p in missed]


@register("solvers", "not in the paper")
def solvers(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Fraction solved and time spent by the samplers and by `solve`, on the same instances.

    For the symmetric perceptron, |s| <= 1, `solve` alone. Times are those of a task on one core, or on the device. Other
    margins have loads at the same fractions of the capacity.
    """
    half, band = Target("binary", "log", temperature, margin), Target("binary", "band(1)")
    sizes = {"quick": (201, 501), "paper": (1001, 10001)}
    limits = {"quick": 2.0, "paper": 10.0}  # seconds that `solve` may take
    shortest = 1e-3  # seconds: shorter times are drawn as this

    def specs(size: str) -> Sequence[Spec]:
        instances, sweeps = {"quick": (8, 200), "paper": (20, 1000)}[size]
        alphas, bands = {
            "quick": ([0.4, 0.5, 0.6, 0.66, 0.7, 0.74], [0.8, 1.2, 1.5]),
            "paper": ([0.4, 0.5, 0.55, 0.6, 0.64, 0.68, 0.7, 0.72, 0.74, 0.75], [1.0, 1.2, 1.4, 1.5, 1.55, 1.6]),
        }[size]
        solve = {"name": "solve", "time_limit": limits[size]}
        chains = {"n_sweeps": sweeps}
        samplers = ["asl", {"name": "tau-first", **chains}, {"name": "temperature", **chains}, solve]
        common: Values = {"name": "solvers", "n": list(sizes[size]), "instances": instances}
        return [
            Spec(alpha=rescaled(alphas, half, LOG), target=half, sampler=samplers, **common),
            Spec(alpha=bands, target=band, sampler=solve, **common),
        ]

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        by = ("potential", "sampler", "n", "alpha")
        solved = results.mean("solved_fraction", by=by)
        times = [point for point in results.mean("seconds", by=by) if point["sampler"] is not None]
        spent = [{**p, **{name: max(p[name], shortest) for name in ("mean", "low", "high")}} for p in times]
        drawing, axes = style.panels(len(sizes[size]) + 1, width=4.2, height=3.4, rows=2, sharex="col", sharey="row")
        kinds: Sequence[tuple[list[Values], Callable[..., object]]] = (solved, sweeps.success), (spent, sweeps.curves)
        for (points, draw), row in zip(kinds, axes):
            titled = [{**point, "sampler": find(point["sampler"]).title} for point in points]
            for ax, n in zip(row, sizes[size]):
                draw([p for p in titled if p["potential"] == "log" and p["n"] == n], ax, "sampler", label="{}")
                ax.set_title(f"N = {n}")
            draw([p for p in titled if p["potential"] != "log"], row[-1])
            row[-1].set_title("symmetric perceptron, |s| ≤ 1, solve")
        for ax in axes[0]:
            ax.set(xlabel="")
        for ax in axes[1]:
            ax.set(xlabel=r"load $\alpha$", ylabel="seconds, mean", yscale="log", title="")
        for row in results.rows(kind="thresholds"):
            for ax in axes[0, :-1]:
                sweeps.threshold(ax, row.values["capacity"], "capacity")
        heading = "" if half == LOG else f"T = {temperature:g}, κ = {signed(margin)}"
        sweeps.legend_above(drawing, axes[:, :-1].flat, heading)
        count = max(point["instances"] for point in solved)
        heat = "" if temperature == 0.5 else f", samplers at T = {temperature:g}"
        note = (
            f"{count} instances a point, ±1 patterns, κ = {signed(margin)}{heat}, at most {limits[size]:g} s for solve; "
            "bars: one sigma"
        )
        return Picture(drawing, [{**p, "seconds": t["mean"]} for p, t in zip(solved, spent)], note=note)

    # of the thresholds the capacity is drawn, which does not depend on the potential
    title = "how far and how fast solutions are found"
    return Figure(title, picture, specs, lambda size: thresholds_of(half))


@register("symmetric-t-alpha", "ours")
def symmetric_t_alpha(temperature: float = 0.7, width: float = 1.0) -> Figure:
    """The symmetric perceptron with logarithmic walls; sampling works up to α = 1.139089."""
    square = "1" if width == 1 else f"{width:g}^2"
    return t_alpha(
        f"symmetric perceptron, walls at ±{width:g}, T = {temperature:g}",
        Target("binary", LogBand(width), temperature),
        Target("binary", "log_band(1)", 0.7),
        Columns(1.05, 1.139089, 1e-6, 1.3, {"quick": 16, "paper": 80}),
        top=0.4,
        heading=rf"symmetric, $U = -\log({square} - s^2)$, T = {temperature:g}",
    )


@register("symmetric-threshold", "ours")
def symmetric_threshold() -> Figure:
    """The load that ASL reaches in the symmetric perceptron, against the temperature of its walls, for four widths.

    Dashed: where the entropy of that measure vanishes; dotted: the capacity of the band. Higher temperatures reach further, up
    to T = 1, where a maximum appears at q = 1.
    """
    widths, ticks = (0.5, 0.8, 1.0, 1.5), (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)

    def theory(size: str) -> Sequence[Task]:
        heats = np.round(np.linspace(0.3, 0.95, {"quick": 6, "paper": 40}[size]), 6)
        targets = [Target("binary", f"log_band({width})", float(heat)) for width in widths for heat in heats]
        return [task for target in targets for task in thresholds_of(target)]

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import diagrams, style

        rows = sorted(results.rows(kind="thresholds"), key=lambda row: row.task["target"]["temperature"])
        table: list[Values] = []
        drawing, ax = style.panels(1, width=6.4, height=4.6)
        for colour, width in zip(style.SERIES, widths):
            points = [
                {"width": width, "temperature": row.task["target"]["temperature"]}
                | {name: row.values[name] for name in ("asl", "dynamical", "zero_entropy", "capacity")}
                for row in rows
                if row.task["target"]["potential"]["width"] == width
            ]
            lines = {name: np.array([p[name] for p in points]) for name in ("asl", "zero_entropy", "capacity")}
            heats = np.array([point["temperature"] for point in points])
            diagrams.temperature_lines(heats, lines, ax, f"ASL, K = {width:g}", colour)
            table += points
        ax.plot([], [], color="0.4", lw=1, ls="--", label="entropy of the measure is zero")
        ax.plot([], [], color="0.4", lw=1, ls=":", label="capacity of the band")
        ax.set(yscale="log")
        ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
        ax.yaxis.set_minor_formatter(lambda value, place: "")
        ax.set_title(r"symmetric perceptron, $U = -\log(K^2 - s^2)$")
        ax.legend(ncols=2, fontsize=7.5)
        return Picture(drawing, table)

    return Figure("ASL's threshold in the symmetric perceptron against T and the width", picture, theory=theory)


@register("symmetric-success", "ours")
def symmetric_success(width: float = 1.0) -> Figure:
    """Samples of the symmetric perceptron inside the band, by ASL (left) and by τ-annealing (right).

    Other bands have loads at the same fractions of their capacity.
    """

    def target(temperature: float, band: float = width) -> Target:
        return Target("binary", LogBand(band), temperature)

    def specs(size: str) -> Sequence[Spec]:
        n, instances, step, stop = {"quick": (301, 8, 0.2, 1.4), "paper": (1001, 50, 0.05, 1.6)}[size]
        counts = {"quick": [10, 100], "paper": [10, 100, 1000]}[size]
        alphas = rescaled(steps(0.6, stop, step), target(0.5), target(0.5, 1.0))
        common: Values = {"name": "symmetric-success", "n": n, "alpha": alphas, "instances": instances}
        return [
            Spec(target=target(0.5), temperature=list(TEMPERATURES), sampler="asl", **common),
            Spec(target=target(0.7), sampler={"name": "tau", "n_sweeps": counts}, **common),
        ]

    def theory(size: str) -> Sequence[Task]:
        return [task for heat in TEMPERATURES for task in thresholds_of(target(heat))]

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        points = results.mean("solved_fraction", by=["sampler", "temperature", "n_sweeps", "n", "alpha"])
        asl, tau = ([p for p in points if p["sampler"] == name] for name in ("asl", "tau"))
        drawing, (left, right) = style.panels(2, width=4.6, sharey=True)
        sweeps.success(asl, left, series="temperature", label="ASL, T = {}")
        limits = {row.task["target"]["temperature"]: row.values["asl"] for row in results.rows(kind="thresholds")}
        marked = sorted((heat, load) for heat, load in limits.items() if load is not None)
        for colour, (heat, load) in zip(style.SERIES, marked):
            sweeps.threshold(left, load, f"theory, T = {heat:g}:", colour)
        left.legend(loc="lower left", frameon=True, framealpha=1, edgecolor="none")  # the lines pass behind it
        left.set_title("ASL")
        sweeps.success(tau, right, series="n_sweeps", label="{} sweeps")
        right.set_title("τ-annealing, T = 0.7")
        square = "1" if width == 1 else f"{width:g}^2"
        note = (
            f"N = {points[0]['n']}, {max(p['instances'] for p in points)} instances a point, one sample each, ±1 patterns, "
            f"solved: all |s| <= {width:g}; bars: one-sigma Wilson intervals"
        )
        table = [{"panel": p["sampler"], **p} for p in points]
        return Picture(drawing, table, rf"symmetric perceptron, $U = -\log({square} - s^2)$", note)

    title = "samples of the symmetric perceptron inside the band, by ASL and τ-annealing"
    return Figure(title, picture, specs, theory)
