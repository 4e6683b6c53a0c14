"""Figures of planted problems, and of ternary weights."""

from __future__ import annotations

import numpy as np

from solspace.experiments import planted
from solspace.experiments.figures import Content, at_temperature, drawn_by, register
from solspace.experiments.figures.random_patterns import denser, t_alpha
from solspace.experiments.tasks import thresholds_of, windows_at
from solspace.measure import Target

STEP, PROBIT = Target("binary", "uniform"), Target("binary", "probit(0.5)")
NOISELESS = 0.1  # noise of a probit teacher whose diagram has a cusp
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
