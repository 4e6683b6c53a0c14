"""How stored results become the pictures of figures: a function for each kind, named by `drawn_by`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from solspace.experiments.figures import TEMPERATURES, Picture
from solspace.experiments.results import Results
from solspace.experiments.tasks import LINES
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.series import bins, spacing
from solspace.plots import diagrams, style, sweeps
from solspace.plots.samples import overlap_outlines
from solspace.samplers.registry import find
from solspace.store import Result
from solspace.system.plain import Values

VISIBLE = 1e-3  # fraction of the highest density below which a curve cannot be distinguished from the axis
ASL = r"theory: $\alpha_\mathrm{ASL}$ ="
MIXED = ("self_overlap", "self_overlap_error", "cross_overlap", "cross_overlap_error", "memory", "memory_error", "lag",
         "missed", "rhat", "solved_fraction", "fair", "within", "rungs", "round_trips", "verdict")  # fmt: skip
WILSON = "bars: one-sigma Wilson intervals"


def instances(points: Iterable[Values]) -> str:
    counts = sorted({point["instances"] for point in points})
    return "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else "no"


def marked(results: Results, name: str = "asl") -> list[float]:
    return [row.values[name] for row in results.rows(kind="thresholds") if row.values[name] is not None]


def rows_of(results: Results, target: Values, kind: str, arrays: bool = False) -> list[Result]:
    return [row for row in results.rows(arrays, kind=kind) if row.task["target"] == target]


def selected(points: Iterable[Values], common: Values) -> list[Values]:
    return [point for point in points if common.items() <= point.items()]


def line(row: Result, *names: str, **more: object) -> Values:
    """Return a line of a table: what a result's task and numbers have by these names, and more."""
    values = row.flat()
    return {name: values.get(name) for name in names} | more


def columns(table: Sequence[Values], *names: str) -> dict[str, Reals]:
    return {name: np.array([values[name] for values in table], float) for name in names}


def free_entropy(results: Results, title: str, **view: Any) -> Picture:
    drawing, ax = style.panels(1)
    row, table = _entropy_curves(results, ax)
    ax.set(title=f"{title}; r = {row.values['overlap']:.4f}", **view)
    return Picture(drawing, table)


def _entropy_curves(results: Results, ax: Axes, base: str = "r") -> tuple[Result, list[Values]]:
    (row,) = results.rows(arrays=True, kind="free-entropy")
    q, phi, times = row.arrays["q"], row.arrays["phi"], row.task["times"]
    diagrams.entropy_curves(q, phi, times, row.values, ax, base)
    return row, [
        {"t": time, "regime": regime, "q": float(x), "phi": float(y)}
        for time, regime, curve in zip(times, row.values["regimes"], phi)
        for x, y in zip(q, curve)
    ]


def t_alpha(results: Results, target: Target, top: float | None, title: str) -> Picture:
    """Draw the t–α diagram of `target` up to time `top`; if None, a little after the last window."""
    drawing, ax = style.panels(1)
    table = _t_alpha(results, target, ax, top, marked=("asl", "dynamical", "condensation"))
    ax.set_title(title)
    return Picture(drawing, table)


def _t_alpha(
    results: Results, target: Target, ax: Axes, top: float | None, marked: Sequence[str], legend: str = "upper left"
) -> list[Values]:
    rows = sorted(rows_of(results, target.to_dict(), "windows"), key=lambda row: row.task["alpha"])
    if top is None:
        ends = [window[2] for row in rows for window in row.values["windows"] if window[2] is not None]
        top = 1.25 * max(ends, default=0.0) or 1.0
    diagrams.regimes([(row.task["alpha"], row.values["windows"]) for row in rows], ax, top, legend)
    for row in rows_of(results, target.to_dict(), "thresholds"):
        height = 0.47 if legend == "upper left" else 0.1
        diagrams.mark_loads(ax, line(row, *marked), height)
    table = []
    for row in rows:
        low, maxwell, high = (row.values["windows"] or [(None, None, None)])[0]
        own = line(row, "alpha", t_low=low, t_maxwell=maxwell, t_high=high)
        table.append(own | line(row, "overlap", "replicon", "entropy", "samplable"))
    return table


def binary_uniform(results: Results, target: Target, top: float | None, title: str, inset: bool) -> Picture:
    drawing, (left, right) = style.panels(2)
    row, curves = _entropy_curves(results, left, base="1")
    left.set_title(f"{title}, α = {row.task['alpha']:g}")
    if inset:
        left.set(ylim=(-0.6, 0.85))
        left.legend(loc="lower right")
        small = left.inset_axes((0.36, 0.71, 0.6, 0.27))
        _entropy_curves(results, small, base="1")
        small.get_legend().remove()
        small.set(xlim=(0.84, 1.006), ylim=(-0.022, 0.03), xlabel="", ylabel="")
        small.tick_params(labelsize=7)
    diagram = _t_alpha(results, target, right, top, marked=("capacity",), legend="upper right")
    right.set_title(title)
    panels = {"free entropy": curves, "t-alpha": diagram}
    return Picture(drawing, [{"panel": panel, **values} for panel, own in panels.items() for values in own])


def alpha_kappa(results: Results, title: str, zoom: tuple[float, float]) -> Picture:
    rows = sorted(results.rows(kind="thresholds"), key=lambda row: row.task["target"]["margin"])
    table = [line(row, "margin", *LINES) for row in rows]
    margins, lines = columns(table, "margin")["margin"], columns(table, *LINES)
    drawing, ax = style.panels(1, width=6.0, height=4.4)
    diagrams.alpha_kappa(margins, lines, ax)
    ax.set(xscale="log", xlim=(0.05, None), ylim=(margins[0], margins[-1]), title=title)
    ax.legend(loc="upper right")
    inset = ax.inset_axes((0.09, 0.1, 0.38, 0.42))
    diagrams.alpha_kappa(margins, lines, inset, ("asl", "dat", "dynamical", "condensation"))
    inset.set(xlim=(150, 420), ylim=zoom, xlabel="", ylabel="")
    inset.tick_params(labelsize=7)
    return Picture(drawing, table)


def edge(results: Results, targets: Mapping[str, Sequence[Target]], heading: str) -> Picture:
    drawing, axes = style.panels(2)
    for ax, (title, own) in zip(axes, targets.items()):
        for colour, target in zip(style.SERIES, own):
            (row,) = rows_of(results, target.to_dict(), "edge", arrays=True)
            flat = target.potential.name == "uniform"
            label = "$U = 0$" if flat else rf"$-\log s$, T = {target.temperature:.3g}"
            diagrams.edge(row.arrays["epsilon"], row.arrays["slope"], ax, label, colour, _edge_law(row))
        ax.set_title(title)
        ax.legend()
    axes[0].set_ylim(-8, 40)
    about = ("potential", "temperature", "divergence", "constant", "maximum_at_one")
    table = [
        line(row, *about, epsilon=float(e), slope=float(s))
        for row in results.rows(arrays=True, kind="edge")
        for e, s in zip(row.arrays["epsilon"], row.arrays["slope"])
    ]
    note = "lines: theory; dotted: its leading terms as ε → 0, with the constant fitted at the smallest ε"
    return Picture(drawing, table, heading, note)


def _edge_law(row: Result) -> np.ndarray:
    """Return log ε + ½ log log 1/ε + α C ε^-γ plus a constant: the leading terms as ε → 0, fitted at the smallest ε."""
    epsilon, slope, alpha = row.arrays["epsilon"], row.arrays["slope"], row.task["alpha"]
    law = np.log(epsilon) + 0.5 * np.log(np.log(1 / np.minimum(epsilon, 0.5)))
    if row.values["divergence"]:
        law += alpha * row.values["constant"] * epsilon ** -row.values["divergence"]
    elif row.values["logarithmic"]:
        law += alpha * row.values["constant"] * np.log(1 / epsilon)
    return np.where(epsilon < 1e-2, law + slope[0] - law[0], np.nan)


def symmetric_threshold(results: Results, widths: Sequence[float], title: str) -> Picture:
    rows = sorted(results.rows(kind="thresholds"), key=lambda row: row.task["target"]["temperature"])
    table: list[Values] = []
    drawing, ax = style.panels(1, width=6.4, height=4.6)
    for colour, width in zip(style.SERIES, widths):
        own = [row for row in rows if row.task["target"]["potential"]["width"] == width]
        names = ("temperature", "asl", "dynamical", "zero_entropy", "capacity")
        points = [{"width": width, **line(row, *names)} for row in own]
        lines = columns(points, "asl", "zero_entropy", "capacity")
        diagrams.temperature_lines(columns(points, *names)["temperature"], lines, ax, f"ASL, K = {width:g}", colour)
        table += points
    ax.plot([], [], color="0.4", lw=1, ls="--", label="entropy of the measure is zero")
    ax.plot([], [], color="0.4", lw=1, ls=":", label="capacity of the band")
    ticks = (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)
    ax.set(yscale="log", title=title)
    ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.yaxis.set_minor_formatter(lambda value, place: "")
    ax.legend(ncols=2, fontsize=7.5)
    return Picture(drawing, table)


def stabilities(results: Results, heading: str) -> Picture:
    """Draw a histogram of all stabilities at each load under the predicted density; the table has the histograms."""
    predictions, table = list(results.rows(arrays=True, kind="stabilities")), []
    drawing, axes = style.panels(len(predictions), width=4.4 if len(predictions) > 1 else 5.2, squeeze=False)
    for ax, prediction in zip(axes.flat, predictions):
        table += _stabilities(results, prediction, ax)
    note = "overlap: of pairs of samples of one instance, its error over instances; ±1 patterns"
    return Picture(drawing, table, heading, note)


def _stabilities(results: Results, theory: Result, ax: Axes) -> list[Values]:
    alpha, target = theory.task["alpha"], theory.task["target"]
    rows = [row for row in rows_of(results, target, "sample", arrays=True) if row.task["alpha"] == alpha]
    s, density = theory.arrays["s"], theory.arrays["density"]
    count = sum(len(row.arrays["stabilities"]) for row in rows)
    values = np.concatenate([row.arrays["stabilities"].ravel() for row in rows]).astype(float)
    edges = bins(values, target["margin"], spacing(values, rows[0].task["n"]))
    sweeps.stabilities(values, edges, ax, s, density, target["margin"], f"ASL, {count} samples")
    ax.set_xlim(s[0], s[density > VISIBLE * density.max()][-1])
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
    counts, _ = np.histogram(values, edges)
    centres, measured = (edges[1:] + edges[:-1]) / 2, counts / len(values) / (edges[1] - edges[0])
    columns = {"s": centres, "count": counts, "density": measured, "theory": np.interp(centres, s, density, right=0.0)}
    return [{"alpha": alpha, **dict(zip(columns, line))} for line in zip(*(own.tolist() for own in columns.values()))]


def sphere_wall(results: Results, heading: str) -> Picture:
    """Draw the densities of stabilities by three ways of sampling, next to a margin, beside the predicted density."""
    predictions, table = list(results.rows(arrays=True, kind="stabilities")), []
    drawing, axes = style.panels(len(predictions), width=4.4)
    edges = np.arange(0, 0.0501, 0.0025)
    for ax, theory in zip(axes, predictions):
        alpha, target = theory.task["alpha"], theory.task["target"]
        rows = [row for row in rows_of(results, target, "sample", arrays=True) if row.task["alpha"] == alpha]
        named = {"rescaled means (finish=0)": ("asl", 0), "localize": ("asl", None), "chains": ("temperature", None)}
        for colour, (name, (sampler, finish)) in zip(style.SERIES, named.items()):
            own = [row for row in rows if (row.task["sampler"], row.task["options"].get("finish")) == (sampler, finish)]
            values = np.concatenate([row.arrays["stabilities"].ravel() for row in own]) - target["margin"]
            counts, _ = np.histogram(values, edges)
            density = counts / len(values) / edges[1]
            ax.stairs(density, edges, color=colour, label=name)
            about = {"alpha": alpha, "margin": target["margin"], "sampler": name}
            shown = zip(edges.tolist(), counts.tolist(), density.tolist())
            table += [{**about, "s": s, "count": count, "density": one} for s, count, one in shown]
        ax.plot(theory.arrays["s"] - target["margin"], theory.arrays["density"], "k--", label="theory")
        ax.set(xlim=(0, edges[-1]), ylim=(0, None), xlabel="stability, from the margin", ylabel="density")
        ax.set_title(f"N = {rows[0].task['n']}, κ = {target['margin']:g}, α = {alpha:g}")
    axes[0].legend()
    return Picture(drawing, table, heading)


def threshold_temperature(results: Results, heading: str) -> Picture:
    drawing, (left, centre, right) = style.panels(3, width=3.7, height=3.4)
    table = _thresholds(results, left) + _instability(results, centre) + (solved := _solved(results, right))
    task = next(results.rows(kind="sample")).task
    samples = f"{task['n_samples']} sample" + "s" * (task["n_samples"] > 1)
    note = (
        f"N = {task['n']}, {instances(solved)} instances a point with {samples} each, ±1 patterns, method careful; bars: "
        "one-sigma intervals over instances (centre: median and central two thirds of runs)"
    )
    return Picture(drawing, table, heading, note)


def _thresholds(results: Results, ax: Axes) -> list[Values]:
    rows = [row for row in results.rows(kind="thresholds") if row.values["asl"] is not None]
    heats, loads = np.array([(row.task["target"]["temperature"], row.values["asl"]) for row in rows]).T
    diagrams.temperature_lines(heats, {"asl": loads}, ax)
    for colour, heat in zip(style.SERIES, TEMPERATURES):
        ax.axvline(heat, color=colour, lw=0.9, ls="--")
    ax.set(ylabel=r"threshold $\alpha_\mathrm{ASL}$", title="theory: where ASL stops")
    return [{"panel": "threshold", "temperature": float(t), "alpha": float(a)} for t, a in zip(heats, loads)]


def _instability(results: Results, ax: Axes) -> list[Values]:
    table = []
    for colour, heat in zip(style.SERIES, TEMPERATURES):
        rows = results.rows(arrays=True, kind="instability")
        (theory,) = (row for row in rows if row.task["target"]["temperature"] == heat)
        target, shown = theory.task["target"], theory.task["alpha"]
        ax.plot(theory.arrays["variance"], theory.arrays["instability"], color=colour, label=f"theory, T = {heat:g}")
        runs = [r for r in rows_of(results, target, "sample", arrays=True) if abs(r.task["alpha"] - shown) < 1e-9]
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
    by = ["temperature", "alpha"]
    solved, missed = results.mean("solved_fraction", by=by), results.mean("unconverged", by=by)
    sweeps.success(solved, ax, series="temperature", label="solved, T = {}")
    sweeps.curves(missed, ax, series="temperature", label="unconverged, T = {}", dashed=True)
    ax.set(ylabel="fraction", title="solved, and AMP calls not converged")
    ax.legend(loc="center left", fontsize=7.5)
    return [{"panel": "solved", **p} for p in solved] + [{"panel": "unconverged", **p} for p in missed]


def success(
    results: Results, by: Sequence[str], more: Callable[[Values], Values], panels: Mapping[str, Values], columns: int,
    heading: str, note: str, series: str = "n", label: str = "N = {}", height: float = 3.6,
) -> Picture:  # fmt: skip
    """Draw the fraction solved, row by row under one legend: panels are (title: what their points have in common).

    Points have the values `by` and `more` of them; τ-annealing is shown with theory's threshold.
    """
    table = [{**point, **more(point)} for point in results.mean("solved_fraction", by)]
    rows = len(panels) // columns
    drawing, axes = style.panels(columns, width=4.4, height=height, rows=rows, sharey=True, squeeze=False)
    for ax, (title, common) in zip(axes.flat, panels.items()):
        sweeps.success(selected(table, common), ax, series, label)
        ax.set_title(title)
        for threshold in marked(results) if common.get("sampler") == "tau" else ():
            sweeps.threshold(ax, threshold, ASL)
    sweeps.legend_above(drawing, axes.flat, heading)
    note = f"{instances(table)} instances a point, one chain each, {note}; {WILSON} over instances"
    return Picture(drawing, table, note=note)


def annealing(results: Results, panels: Mapping[str, Values], heading: str) -> Picture:
    columns = len(panels) if len(panels) < 4 else 2  # four in a row are too wide for a page
    by, note = ("sampler", "n_sweeps", "n", "alpha"), "±1 patterns, solved: all constraints met"

    def sweeps_of(point: Values) -> Values:
        return {"sweeps": "N" if point["n_sweeps"] == point["n"] else point["n_sweeps"]}

    return success(results, by, sweeps_of, panels, columns, heading, note)


def images(results: Results, rows: Sequence[Mapping[str, Values]], labels: Mapping[str, str], heading: str) -> Picture:
    tall = len(rows[0]) > 3  # more than fit into a page side by side
    order = list(zip(*(row.items() for row in rows))) if tall else [tuple(row.items()) for row in rows]
    by, note = (
        ("preprocess", "n_sweeps", "n", "method", "alpha"),
        "solved: no constraint missed at the end of the schedule",
    )
    return success(
        results, by, lambda point: {"label": labels[point["method"]]}, {title: own for row in order for title, own in row},
        len(order[0]), heading, note, "label", "{}", 2.8 if tall else 3.4,
    )  # fmt: skip


def converged_fraction(row: Values) -> float | None:
    missed = row.get("unconverged")
    return None if missed is None else float(missed == 0)


def asl_success(results: Results, heading: str) -> Picture:
    panels = {
        "the sample is a solution": results.mean("solved_fraction", by := ["n", "alpha"]),
        "every call of AMP converged": results.mean(converged_fraction, by),
    }
    drawing, axes = style.panels(2, width=4.8, height=4.0, sharey=True)
    for (name, points), ax in zip(panels.items(), axes):
        sweeps.success(points, ax)
        for load in marked(results):
            sweeps.threshold(ax, load, ASL)
        ax.legend(loc="lower left")
        ax.set(ylabel="fraction of runs", title=name)
    table = [{"runs": name, **point} for name, points in panels.items() for point in points]
    note = f"{instances(table)} instances a point, one sample each, ±1 patterns; {WILSON}"
    return Picture(drawing, table, heading, note)


def symmetric_success(results: Results, width: float, heading: str) -> Picture:
    points = results.mean("solved_fraction", by=["sampler", "temperature", "n_sweeps", "n", "alpha"])
    asl, tau = (selected(points, {"sampler": name}) for name in ("asl", "tau"))
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
    note = (
        f"N = {points[0]['n']}, {instances(points)} instances a point, one sample each, ±1 patterns, "
        f"solved: all |s| <= {width:g}; {WILSON}"
    )
    return Picture(drawing, [{"panel": p["sampler"], **p} for p in points], heading, note)


def solvers(results: Results, sizes: Sequence[int], heading: str, note: str) -> Picture:
    """Draw the fraction solved and the seconds spent, a column for each of the `sizes` and one for the symmetric problem."""
    shortest = 1e-3  # seconds: shorter times are drawn as this
    by = ("potential", "sampler", "n", "alpha")
    solved = results.mean("solved_fraction", by=by)
    times = [point for point in results.mean("seconds", by=by) if point["sampler"] is not None]
    spent = [{**p, **{name: max(p[name], shortest) for name in ("mean", "low", "high")}} for p in times]
    drawing, axes = style.panels(len(sizes) + 1, width=4.2, height=3.4, rows=2, sharex="col", sharey="row")
    kinds: Sequence[tuple[list[Values], Callable[..., object]]] = (solved, sweeps.success), (spent, sweeps.curves)
    for (points, draw), row in zip(kinds, axes):
        titled = [{**point, "sampler": find(point["sampler"]).title} for point in points]
        for ax, n in zip(row, sizes):
            draw(selected(titled, {"potential": "log", "n": n}), ax, "sampler", label="{}")
            ax.set_title(f"N = {n}")
        draw([p for p in titled if p["potential"] != "log"], row[-1])
        row[-1].set_title("symmetric perceptron, |s| ≤ 1, solve")
    for above, below in axes.T:
        above.set(xlabel="")
        below.set(xlabel=r"load $\alpha$", ylabel="seconds, mean", yscale="log", title="")
    for load in marked(results, "capacity"):
        for ax in axes[0, :-1]:
            sweeps.threshold(ax, load, "capacity")
    sweeps.legend_above(drawing, axes[:, :-1].flat, heading)
    table = [{**p, "seconds": t["mean"]} for p, t in zip(solved, spent)]
    return Picture(drawing, table, note=f"{instances(solved)} instances a point, {note}; bars: one sigma")


def overlaps(
    results: Results, panels: Sequence[Any], methods: Mapping[str, Values], heading: str, note: str
) -> Picture:
    """Draw overlaps of pairs of samples; methods are (name: options), distinguished by the denoiser."""
    rows, table = list(results.rows(arrays=True, kind="overlaps")), []
    denoisers = {options.get("denoiser"): name for name, options in methods.items()}
    drawing, axes = style.panels(len(panels), width=4.0, height=3.5)
    for ax, panel in zip(axes, panels):
        own = {denoisers[row.task["options"].get("denoiser")]: row for row in rows if panel.holds(row.task)}
        own = {name: own[name] for name in methods if name in own}
        pairs = {name: row.arrays["overlaps"] for name, row in own.items()}
        means = {name: row.values["overlap"] for name, row in own.items()}
        overlap_outlines(pairs, means, panel.n, ax)
        ax.set_title(f"{panel.title}, α = {panel.alphas[0]:g}")
        about: Values = {"data": panel.data, "features": panel.features, "alpha": panel.alphas[0]}
        names = ("overlap", "overlap_error", "self_overlap", "solved_fraction", "verdict")
        table += [{**about, "sampler": name, **line(row, *names)} for name, row in own.items()]
    return Picture(drawing, table, heading, note)


def mixing(results: Results, panels: Sequence[Any], kinds: Mapping[bool, str], title: str | None, note: str) -> Picture:
    """Draw overlaps of chains with themselves and with each other; kinds are (whether replicas are exchanged: name)."""
    table = [
        line(row, "data", "features", "alpha", "instance", exchange=bool(row.task["options"].get("exchange")))
        | line(row, *MIXED)
        for row in results.rows(kind="mixing")
    ]
    drawing, axes = style.panels(len(panels), width=3.5, height=3.5)
    legend: Values = {}
    for ax, panel in zip(axes, panels):
        own = [values for values in table if panel.holds(values)]
        for k, (exchange, name) in enumerate(kinds.items()):
            sweeps.self_and_cross(selected(own, {"exchange": exchange}), ax, name, k)
        ax.set_title(panel.title)
        handles, labels = ax.get_legend_handles_labels()
        legend = {**dict(zip(labels, handles)), **legend}
    axes[0].set_ylabel("overlap")
    names = sorted(legend, key=lambda label: ("exchange" in label, "self" not in label))
    drawing.legend([legend[name] for name in names], names, loc="outside upper center", ncols=4, title=title)
    return Picture(drawing, table, note=note)
