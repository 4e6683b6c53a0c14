"""Figures of planted problems, of ternary weights, and of calibration by teachers."""

from __future__ import annotations

import numpy as np

from solspace.experiments import planted
from solspace.experiments.figures import LOCALIZE, Content, Picture, at_temperature, drawn_by, register
from solspace.experiments.figures.random_patterns import LOG, denser, steps, t_alpha
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import theory_task, thresholds_of, windows_at
from solspace.measure import Target
from solspace.system.plain import Values

STEP, PROBIT = Target("binary", "uniform"), Target("binary", "probit(0.5)")
NOISELESS = 0.1  # noise of a probit teacher whose diagram has a cusp
LOGISTIC = Target("binary", "logistic(1)")
TERNARY = Target("ternary", "log", temperature=0.5)


@register("planted", "ours", "overlap with a teacher and errors against the load: theory, AMP, localization")
def planted_teachers(size: str) -> Content:
    """Posteriors of a teacher of ±1 weights under four likelihoods, with the region that is hard for AMP."""
    n, instances, samples, count = {"quick": (1001, 5, 4, 48), "paper": (10001, 20, 8, 96)}[size]
    smooth = [PROBIT, Target("binary", "logistic(3)")]
    rough = [STEP, Target("binary", "flip(0.1)")]
    alphas = np.unique([*np.linspace(0.05, 2.0, count).round(6), 1.2446, 1.2447, 1.4926, 1.4927])
    theory = [task for target in (*rough, *smooth) for task in planted.theory_at(target, alphas)]
    theory += thresholds_of(STEP, ensemble="planted")
    points = (0.25, 0.5, 0.75, 1.0, 1.15, 1.3, 1.4, 1.6, 1.8, 2.0)
    for target in (*rough, *smooth):
        theory += planted.instances_at(target, n, points, instances, samples if target in smooth else 0)
    names = {"uniform": "step", "flip(0.1)": "flip .1", "probit(0.5)": "probit .5", "logistic(3)": "logistic 3"}
    note = f"N = {n}, {instances} instances a point; bars: standard errors; lines: theory"
    return Content(drawn_by("planted", names, note), theory=theory)


@register("planted-t-alpha", "ours", "t–α diagrams of the posterior of a teacher: no noise, and little")
def planted_t_alpha(size: str) -> Content:
    """Left the step teacher; right a probit teacher with noise .1, whose window opens at a cusp."""
    count = {"quick": 16, "paper": 80}[size]
    little = Target("binary", f"probit({NOISELESS})")
    # as far as the spinodals at 1.492632 and 1.579687, where the windows close at t = 0
    columns = {
        STEP: np.append(np.linspace(0.1, 1.4926, count), [1.4927, 1.7]),
        little: np.append(1.2, [*denser(1.25, 1.284645, 1.579686 - 1.284645, count), 1.5798, 1.7]),
    }
    theory = [task for target in columns for task in thresholds_of(target, ensemble="planted")]
    theory += [task for target, alphas in columns.items() for task in windows_at(target, alphas, ensemble="planted")]
    titles = {"step teacher": (STEP, 10.0), f"probit teacher, noise {NOISELESS:g}": (little, 1.0)}
    return Content(drawn_by("planted_t_alpha", titles), theory=theory)


@register("ternary-t-alpha", "ours", "t–α diagram of ternary weights, log potential, T = 0.5")
def ternary_t_alpha(size: str, temperature: float = 0.5, margin: float = 0.0) -> Content:
    alphas = denser(0.85, 0.940795 + 1e-6, 1.06 - 0.940795, {"quick": 16, "paper": 80}[size])
    heading = rf"ternary, $U = -\log s$, {at_temperature(temperature, margin)}"
    return t_alpha(TERNARY.replace(temperature=temperature, margin=margin), TERNARY, alphas, 4.5, heading)


@register("levels-success", "ours", "success of ASL and τ-annealing against the load, ternary and ±1 weights")
def levels_success(size: str) -> Content:
    """The log potential at T = 0.5, with the thresholds of both priors."""
    n, instances = {"quick": ([501], 12), "paper": ([1001, 10001], 50)}[size]
    loads = {
        LOG: (0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75),
        TERNARY: (0.5, 0.6, 0.65, 0.7, 0.8, 0.9, 0.95, 1.0, 1.05, 1.1),
    }
    if size == "paper":
        loads = {LOG: steps(0.4, 0.8, 0.025), TERNARY: steps(0.5, 1.15, 0.025)}
    samplers = [LOCALIZE, {"name": "tau", "n_sweeps": "n"}]
    specs = [
        Spec(name="levels-success", target=target, n=n, instances=instances, alpha=alpha, sampler=samplers)
        for target, alpha in loads.items()
    ]
    return Content(_levels_success, specs, [task for target in loads for task in thresholds_of(target)])


LEVELS = {"binary": "±1 weights", "ternary": "ternary weights"}
MARKED = {"asl": r"$\alpha_\mathrm{ASL}$ =", "zero_entropy": "entropy 0 at", "capacity": "capacity"}
SAMPLERS = {"asl": "ASL", "tau": "τ-annealing"}


def _levels_success(results: Results) -> Picture:
    from solspace.experiments.figures.pictures import WILSON, instances, selected
    from solspace.plots import style, sweeps

    table = results.mean("solved_fraction", ["prior", "sampler", "n", "alpha"])
    table = [{**point, "label": f"{SAMPLERS[point['sampler']]}, N = {point['n']}"} for point in table]
    drawing, axes = style.panels(2, width=4.6, sharey=True)
    for ax, (prior, title) in zip(axes, LEVELS.items()):
        sweeps.success(selected(table, {"prior": prior}), ax, "label", "{}")
        ax.set_title(title)
    sweeps.legend_above(drawing, axes, r"$U = -\log s$, T = 0.5, κ = 0")
    for ax, prior in zip(axes, LEVELS):
        (limits,) = (row.values for row in results.rows(kind="thresholds") if row.task["target"]["prior"] == prior)
        for (name, words), colour in zip(MARKED.items(), (style.RED, style.GREY, "0.1")):
            sweeps.threshold(ax, limits[name], words, colour)
        ax.legend(handles=ax.lines[-len(MARKED) :], loc="lower left", fontsize=8)
    note = f"{instances(table)} instances a point, one sample each, ±1 patterns, τ-annealing in N sweeps; {WILSON}"
    return Picture(drawing, table, note=note)


@register("calibration-ranks", "ours", "ranks of teachers among samples of fair and unfair samplers")
def calibration_ranks(size: str) -> Content:
    """Denoisers on patterns with three strong common directions, and chains at the right temperature and 10% above."""
    n, teachers, chained = {"quick": (60, 60, 400), "paper": (200, 400, 2000)}[size]
    rows: list[Values] = [{"by": name, "n_problems": teachers} for name in ("ep", "amp")]
    rows += [{"by": "chains", "temperature": heat, "n_problems": chained, "n_sweeps": 500} for heat in (1.0, 1.1)]
    common: Values = {"n": n, "alpha": 2.0, "common": 3, "n_samples": 8, "seed": 0}
    return Content(_calibration_ranks, theory=[theory_task("calibration", LOGISTIC, **common, **row) for row in rows])


def _calibration_ranks(results: Results) -> Picture:
    from solspace.plots import style
    from solspace.plots.samples import rank_histograms

    rows = list(results.rows(arrays=True, kind="calibration"))
    drawing, axes = style.panels(3, width=3.4, height=2.3, rows=len(rows), squeeze=False)
    table: list[Values] = []
    for panels, row in zip(axes, rows):
        task, found = row.task, row.values
        name = RANKED[task["by"]] + (f" at T = {task['temperature']:g}" if task["by"] == "chains" else "")
        rank_histograms(row.arrays, found["p_values"], found["bins"], panels)
        verdict = {True: "fair", False: "biased", None: "cannot tell"}[found["fair"]]
        panels[0].set_ylabel(f"{name}: {verdict}\n{task['n_problems']} teachers")
        for quantity, positions in row.arrays.items():
            for k, count in enumerate(np.histogram(positions, found["bins"], (0, 1))[0]):
                own = {"sampler": name, "verdict": verdict, "quantity": quantity, "p": found["p_values"][quantity]}
                table.append({**own, "bin": k, "bins": found["bins"], "count": int(count)})
    for panels in axes[1:]:
        panels[0].get_legend().remove()
    note = f"N = {task['n']}, α = {task['alpha']:g}, Gaussian patterns with {task['common']} strong common directions, "
    return Picture(drawing, table, f"teachers of ±1 weights, {LOGISTIC.potential}", note + "8 samples a teacher")


RANKED = {"ep": "EP", "amp": "AMP", "chains": "chains"}
