"""The figures of the paper on random patterns: binary and spherical weights, theory and samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from solspace.experiments.figures import (
    LOCALIZE,
    Figure,
    Picture,
    around,
    fractions,
    register,
    rescaled,
    sampled,
    signed,
    steps,
    telling_times,
)
from solspace.experiments.predictions import LINES, theory_task, thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.store import Result
from solspace.system.plain import Values

LOG = Target("binary", "log", temperature=0.5)
LOG_STOPS = 0.651417
"""The load at which ASL stops for `LOG`."""


@register("spherical-free-entropy", "Fig. 1 left")
def spherical_free_entropy(margin: float = -2.5, alpha: float = 278.0) -> Figure:
    """φ_t(q) of the sphere under the uniform measure.

    The paper's times lie around the window t = 0.0206 ... 0.0470 of two maxima: the upper one appears, becomes the higher
    one at t = 0.0363, and the lower one disappears. Other parameters have times at which their own maxima compete.
    """
    target, changed = Target("spherical", "uniform", margin=margin), (margin, alpha) != (-2.5, 278.0)

    def theory(size: str) -> Sequence[Task]:
        times = telling_times(target, alpha) if changed else (0.0, 0.015, 0.025, 0.036297, 0.042, 0.055)
        return [theory_task("free-entropy", target, alpha=alpha, times=list(times))]

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures import panels
        from solspace.plots import style

        drawing, ax = style.panels(1)
        row = panels.entropy_curves(results, ax)
        ax.set_title(rf"spherical, $U = 0$, κ = {signed(margin)}, α = {alpha:g}; r = {row.values['overlap']:.4f}")
        if not changed:
            ax.set(xlim=(0.1, 1.0), ylim=(-0.012, 0.008))
        return Picture(drawing, panels.curve_table(row))

    return Figure(f"φ_t(q) of the spherical perceptron, κ = {signed(margin)}, α = {alpha:g}", picture, theory=theory)


class Columns(NamedTuple):
    """The loads of a t–α diagram: one at `before`, the others from `gap` above the cusp to `last`, `counts` at each size."""

    before: float
    cusp: float
    gap: float
    last: float
    counts: Mapping[str, int]

    def at(self, size: str) -> list[float]:
        inside = self.cusp + self.gap + (self.last - self.cusp) * np.linspace(0, 1, self.counts[size]) ** 2
        return [self.before, *inside]


def t_alpha(title: str, target: Target, paper: Target, columns: Columns, top: float, heading: str) -> Figure:
    """Return a t–α diagram: that of the target `paper` at its columns, up to time `top`; others around their own window."""

    def theory(size: str) -> Sequence[Task]:
        loads = columns.at(size) if target == paper else around(target, columns.counts[size])
        return [*thresholds_of(target), *windows_at(target, loads)]

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures import panels
        from solspace.plots import style

        drawing, ax = style.panels(1)
        end = top if target == paper else None
        table = panels.t_alpha(results, target, ax, end, marked=("asl", "dynamical", "condensation"))
        ax.set_title(heading)
        return Picture(drawing, table)

    return Figure(f"t–α diagram of the {title}", picture, theory=theory)


@register("spherical-t-alpha", "Fig. 1 centre")
def spherical_t_alpha(margin: float = -2.5) -> Figure:
    """Sampling works up to α = 269.736, below the dynamical transition."""
    return t_alpha(
        f"spherical perceptron, κ = {signed(margin)}",
        Target("spherical", "uniform", margin=margin),
        Target("spherical", "uniform", margin=-2.5),
        Columns(250.0, 269.735956, 1e-4, 300, {"quick": 24, "paper": 120}),
        top=0.1,
        heading=f"spherical, $U = 0$, κ = {signed(margin)}",
    )


@register("spherical-alpha-kappa", "Fig. 1 right")
def spherical_alpha_kappa() -> Figure:
    """All transition lines of the sphere under the uniform measure, and the loads that ASL samples at each margin.

    The inset shows κ around -2.5, where ASL stops below the dynamical transition; above the tricritical margin -2.043 its
    line is the dAT line.
    """
    zoom = (-2.64, -2.28)

    def theory(size: str) -> Sequence[Task]:
        step = {"quick": 0.2, "paper": 0.05}[size]
        fine, coarse = np.arange(zoom[0], zoom[1] + 0.01, step / 5), np.arange(-3.0, -0.1, step)
        return thresholds_of(Target("spherical", "uniform"), sorted({*np.round(coarse, 6), *np.round(fine, 6)}))

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import diagrams, style

        rows = sorted(results.rows(kind="thresholds"), key=lambda row: row.task["target"]["margin"])
        margins = np.array([row.task["target"]["margin"] for row in rows])
        table = [
            {"margin": float(m), **{name: row.values.get(name) for name in LINES}} for m, row in zip(margins, rows)
        ]
        lines = {name: np.array([row[name] for row in table], dtype=float) for name in LINES}
        drawing, ax = style.panels(1, width=6.0, height=4.4)
        diagrams.alpha_kappa(margins, lines, ax)
        ax.set(xscale="log", xlim=(0.05, None), ylim=(margins[0], margins[-1]), title="spherical, $U = 0$")
        ax.legend(loc="upper right")
        inset = ax.inset_axes((0.09, 0.1, 0.38, 0.42))
        diagrams.alpha_kappa(margins, lines, inset, ("asl", "dat", "dynamical", "condensation"))
        inset.set(xlim=(150, 420), ylim=zoom, xlabel="", ylabel="")
        inset.tick_params(labelsize=7)
        return Picture(drawing, table)

    return Figure("the loads that ASL samples at each margin, spherical", picture, theory=theory)


@register("binary-t-alpha", "Fig. 2 left")
def binary_t_alpha(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Sampling works up to α = 0.651417."""
    at = "" if margin == 0 else f", κ = {signed(margin)}"
    return t_alpha(
        f"binary perceptron, log potential, T = {temperature:g}{at}",
        Target("binary", "log", temperature, margin),
        LOG,
        Columns(0.6, LOG_STOPS, 1e-6, 0.72, {"quick": 20, "paper": 100}),
        top=0.6,
        heading=rf"binary, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}",
    )


Sizes = Callable[[str], Mapping[float, tuple[int, int, int]]]
"""Size -> loads: (N, instances, samples of each)."""


def stabilities(title: str, target: Target, sizes: Sizes, interval: tuple[float, float], heading: str) -> Figure:
    """Return a figure of the stabilities of ASL samples against P(s) over an interval."""

    def specs(size: str) -> Sequence[Spec]:
        return [
            Spec(name="stabilities", n=n, alpha=alpha, target=target, sampler=LOCALIZE, n_samples=samples,
                 instances=instances, keep=["stabilities", "violations"])
            for alpha, (n, instances, samples) in sizes(size).items()
        ]  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        return [
            theory_task("stabilities", target, alpha=alpha, low=interval[0], high=interval[1]) for alpha in sizes(size)
        ]

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures import panels

        return panels.stabilities(results, size, heading)

    return Figure(f"stabilities of ASL samples against P(s), {title}", picture, specs, theory)


@register("binary-stabilities", "Fig. 2 right")
def binary_stabilities(temperature: float = 0.5, margin: float = 0.0, alpha: float = 0.3) -> Figure:
    """Stabilities of binary weights, and the overlap beside r."""
    counts = {"quick": (5000, 4, 4), "paper": (5000, 16, 16)}
    heading = rf"binary, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}"
    target = Target("binary", "log", temperature, margin)
    return stabilities("N = 5000", target, lambda size: {alpha: counts[size]}, (margin - 0.2, margin + 5.5), heading)


SIZES = {"quick": [201, 501, 1001], "paper": [501, 1001, 2001, 5001, 10001]}
INSTANCES = {"quick": 40, "paper": 100}


class Annealing(NamedTuple):
    """A schedule with its target, and its loads: from `start` to `stop`, at other margins the same fractions of the capacity.

    The schedule of the temperature ends at zero, whatever the target's.
    """

    schedule: str
    start: float
    stop: float
    temperature: float = 0.5
    margin: float = 0.0

    @property
    def target(self) -> Target:
        return Target("binary", "log", self.temperature, self.margin)

    def spec(self, size: str, n: Sequence[int], n_sweeps: object) -> Spec:
        step = {"quick": 0.05, "paper": 0.025}[size]
        alpha: object = {"start": self.start, "stop": self.stop, "step": step}
        if self.margin != LOG.margin:
            alpha = rescaled(steps(self.start, self.stop, step), self.target, LOG)
        return Spec(n=n, alpha=alpha, target=self.target, sampler={"name": self.schedule, "n_sweeps": n_sweeps},
                    instances=INSTANCES[size])  # fmt: skip


def annealing(
    title: str, heading: str, panels: Callable[[str], Mapping[str, Values]], specs: Callable[[str], Sequence[Spec]],
    end: Target | None,
) -> Figure:  # fmt: skip
    """Return a figure of the success of annealing; panels are (title: what their points have in common).

    Panels of τ-annealing mark the load up to which theory says that its last target, `end`, is sampled by localization.
    """

    def theory(size: str) -> Sequence[Task]:
        return [] if end is None else thresholds_of(end)

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures.panels import Success, instances, success

        table = results.mean("solved_fraction", by=("sampler", "n_sweeps", "n", "alpha"))
        for point in table:
            point["sweeps"] = "N" if point["n_sweeps"] == point["n"] else point["n_sweeps"]
        limits = [row.values["asl"] for row in results.rows(kind="thresholds")]
        shown = [
            Success(
                name, [p for p in table if common.items() <= p.items()], limits if common["sampler"] == "tau" else ()
            )
            for name, common in panels(size).items()
        ]
        columns = len(shown) if len(shown) < 4 else 2  # four in a row are too wide for a page
        note = (
            f"{instances(table)} instances a point, one chain each, ±1 patterns, solved: all constraints met; "
            "bars: one-sigma Wilson intervals over instances"
        )
        return Picture(success(shown, columns, heading, height=3.6), table, note=note)

    return Figure(title, picture, specs, theory)


@register("mcmc-comparison", "Fig. 3")
def mcmc_comparison(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Both schedules on the same instances: annealing of the temperature on U = -sΘ(-s), and τ-annealing."""
    tau = Annealing("tau", 0.05, 0.7, temperature, margin)
    both = (tau._replace(schedule="temperature", temperature=0.5), tau)
    panels: dict[str, Values] = {
        r"annealing $T$: 1 → 0 on $-s\,\Theta(-s)$": {"sampler": "temperature"},
        rf"annealing $\tau$: 1 → 0, log potential at T = {temperature:g}": {"sampler": "tau"},
    }
    return annealing(
        "success of τ- and temperature annealing after 100 sweeps",
        f"100 sweeps of Metropolis on the binary perceptron, κ = {signed(margin)}",
        lambda size: panels, lambda size: [one.spec(size, SIZES[size], 100) for one in both], tau.target,
    )  # fmt: skip


@register("spherical-stabilities", "appendix")
def spherical_stabilities(margin: float = -2.1) -> Figure:
    """Stabilities on the sphere; other margins have loads at the same fractions of the one at which ASL stops.

    α = 80 is close to the dAT line at 82.85, where overlaps vary most from instance to instance.
    """
    target, paper = (Target("spherical", "uniform", margin=one) for one in (margin, -2.1))
    counts = {"quick": ((1001, 4, 4), (1001, 4, 4), (501, 2, 4)), "paper": ((1001, 10, 16),) * 3}

    def sizes(size: str) -> Mapping[float, tuple[int, int, int]]:
        loads: tuple[float, ...] = (5.0, 20.0, 80.0)
        if target != paper:
            loads = fractions([load / sampled(paper) for load in loads], sampled(target))
        return dict(zip(loads, counts[size]))

    interval = (margin - 0.3, max(5.5, margin + 5.5))
    return stabilities(f"κ = {signed(margin)}", target, sizes, interval, f"spherical, $U = 0$, κ = {signed(margin)}")


@register("binary-uniform", "appendix")
def binary_uniform(margin: float = 0.0, alpha: float = 0.5) -> Figure:
    """The uniform measure of binary weights, where localization fails at every load.

    Left: φ_t(q); besides the lower maximum there is one at q = 1 at all times, the higher one from t = 2.3009 on. Right: the
    t–α diagram.
    """
    target, changed = Target("binary", "uniform", margin=margin), (margin, alpha) != (0.0, 0.5)

    def theory(size: str) -> Sequence[Task]:
        grid = np.linspace(0.02, 0.9, {"quick": 24, "paper": 100}[size])
        columns = windows_at(target, rescaled(grid.tolist(), target, Target("binary", "uniform")))
        times = telling_times(target, alpha) if changed else (0.0, 1.0, 2.0, 2.3009, 2.6, 3.2)
        return [theory_task("free-entropy", target, alpha=alpha, times=list(times)), *thresholds_of(target), *columns]

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures import panels
        from solspace.plots import style

        drawing, (left, right) = style.panels(2)
        row = panels.entropy_curves(results, left, base="1")
        left.set_title(f"binary, $U = 0$, κ = {signed(margin)}, α = {alpha:g}")
        if not changed:
            left.set(ylim=(-0.6, 0.85))
            left.legend(loc="lower right")
            inset = left.inset_axes((0.36, 0.71, 0.6, 0.27))
            panels.entropy_curves(results, inset, base="1")
            inset.get_legend().remove()
            inset.set(xlim=(0.84, 1.006), ylim=(-0.022, 0.03), xlabel="", ylabel="")
            inset.tick_params(labelsize=7)
        top = 12 if margin == 0 else None
        diagram = panels.t_alpha(results, target, right, top, marked=("capacity",), legend="upper right")
        right.set_title(f"binary, $U = 0$, κ = {signed(margin)}")
        curves = [{"panel": "free entropy", **line} for line in panels.curve_table(row)]
        return Picture(drawing, curves + [{"panel": "t-alpha", **line} for line in diagram])

    at = "" if margin == 0 else f", κ = {signed(margin)}"
    return Figure(f"φ_t(q) and t–α diagram of the binary perceptron, U = 0{at}", picture, theory=theory)


def converged_fraction(row: Values) -> float | None:
    """Return 1 if every call of AMP in a run converged, else 0."""
    missed = row.get("unconverged")
    return None if missed is None else float(missed == 0)


@register("asl-success", "appendix")
def asl_success(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """The fraction of ASL samples that solve their instance, and of runs in which every call of AMP converges.

    Replica theory predicts up to which load ASL samples as N → ∞, which is where message passing converges. Other targets
    have loads at the same fractions of that one.
    """
    target = Target("binary", "log", temperature, margin)

    def specs(size: str) -> Sequence[Spec]:
        # the paper has 250 simulations a point, each on its own instance
        loads, n, instances = {
            "quick": ((0.4, 0.5, 0.55, 0.6, 0.65, 0.7), [201, 501, 1001], 12),
            "paper": (steps(0.3, 0.75, 0.025), [501, 1001, 2001, 5001], 250),
        }[size]
        if target != LOG:
            loads = fractions([load / LOG_STOPS for load in loads], sampled(target))
        return [Spec(name="asl-success", target=target, sampler=LOCALIZE, n=n, alpha=list(loads), instances=instances)]

    def picture(results: Results, size: str) -> Picture:
        from solspace.experiments.figures.panels import ASL
        from solspace.plots import style, sweeps

        by = ["n", "alpha"]
        panels = {
            "the sample is a solution": results.mean("solved_fraction", by),
            "every call of AMP converged": results.mean(converged_fraction, by),
        }
        drawing, axes = style.panels(2, width=4.8, height=4.0, sharey=True)
        for (name, points), ax in zip(panels.items(), axes):
            sweeps.success(points, ax)
            for row in results.rows(kind="thresholds"):
                sweeps.threshold(ax, row.values["asl"], ASL)
            ax.legend(loc="lower left")
            ax.set(ylabel="fraction of runs", title=name)
        table = [{"runs": name, **point} for name, points in panels.items() for point in points]
        heading = rf"ASL, binary perceptron, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}"
        count = max(point["instances"] for point in table)
        note = f"{count} instances a point, one sample each, ±1 patterns; bars: one-sigma Wilson intervals"
        return Picture(drawing, table, heading, note)

    title = "success of ASL against the load, and its threshold"
    return Figure(title, picture, specs, lambda size: thresholds_of(target))


def by_sweeps(title: str, heading: str, schedule: Annealing) -> Figure:
    """Return the figure of one schedule, with a panel for each number of sweeps: fixed ones, and as many as weights."""
    sweeps = {"quick": [10, 100], "paper": [10, 100, 1000]}

    def specs(size: str) -> Sequence[Spec]:
        few = [n for n in SIZES[size] if n <= 5001]  # beyond, N sweeps cost more than all the others
        return [schedule.spec(size, SIZES[size], sweeps[size]), schedule.spec(size, few, "n")]

    def panels(size: str) -> Mapping[str, Values]:
        counts: list[object] = [*sweeps[size], "N"]
        return {f"{count} sweeps": {"sampler": schedule.schedule, "sweeps": count} for count in counts}

    end = schedule.target if schedule.schedule == "tau" else None
    return annealing(f"success of {title} for several numbers of sweeps", heading, panels, specs, end)


@register("tau-annealing", "appendix")
def tau_annealing(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """τ-annealing after several numbers of sweeps."""
    heading = f"τ-annealing of the binary perceptron, log potential at T = {temperature:g}, κ = {signed(margin)}"
    return by_sweeps("τ-annealing", heading, Annealing("tau", 0.1, 0.7, temperature, margin))


@register("temperature-annealing", "appendix")
def temperature_annealing(margin: float = 0.0) -> Figure:
    """Annealing of the temperature after several numbers of sweeps."""
    heading = rf"annealing $T$ from 1 to 0 on $U = -s\,\Theta(-s)$, binary perceptron, κ = {signed(margin)}"
    return by_sweeps("temperature annealing", heading, Annealing("temperature", 0.05, 0.5, margin=margin))


def edge_law(row: Result) -> np.ndarray:
    """Return log ε + ½ log log 1/ε + α C ε^-γ plus a constant: the leading terms as ε → 0, fitted at the smallest ε."""
    epsilon, slope, alpha = row.arrays["epsilon"], row.arrays["slope"], row.task["alpha"]
    law = np.log(epsilon) + 0.5 * np.log(np.log(1 / np.minimum(epsilon, 0.5)))
    if row.values["divergence"]:
        law += alpha * row.values["constant"] * epsilon ** -row.values["divergence"]
    elif row.values["logarithmic"]:
        law += alpha * row.values["constant"] * np.log(1 / epsilon)
    return np.where(epsilon < 1e-2, law + slope[0] - law[0], np.nan)


@register("edge", "appendix")
def edge(alpha: float = 0.5, margin: float = 0.0) -> Figure:
    """dφ_t/dq near q = 1 for binary weights, which decides whether localization can work at all.

    With ε = 1 - q, dφ/dq = log ε + ... + α C(ε) ε^(-1/2). If the potential is finite at the margin, or diverges too
    slowly, the second term wins and there is a maximum at q = 1 at every time (left); U = -log s at T < 1 removes it
    (right). Time adds the constant t/2.
    """
    temperatures = {"a maximum at $q = 1$": (None, 2.0, 1.25), "no maximum at $q = 1$": (0.8, 0.5, 1 / 3)}
    targets = {
        title: [Target(potential="uniform", margin=margin) if t is None else Target(temperature=t, margin=margin) for t in own]
        for title, own in temperatures.items()
    }  # fmt: skip

    def theory(size: str) -> Sequence[Task]:
        return [theory_task("edge", target, alpha=alpha) for own in targets.values() for target in own]

    def picture(results: Results, size: str) -> Picture:
        from solspace.plots import diagrams, style

        rows = list(results.rows(arrays=True, kind="edge"))
        drawing, axes = style.panels(2)
        for ax, (title, own) in zip(axes, targets.items()):
            for colour, target in zip(style.SERIES, own):
                (row,) = (one for one in rows if one.task["target"] == target.to_dict())
                flat = target.potential.name == "uniform"
                label = "$U = 0$" if flat else rf"$-\log s$, T = {target.temperature:.3g}"
                diagrams.edge(row.arrays["epsilon"], row.arrays["slope"], ax, label, colour, edge_law(row))
            ax.set_title(title)
            ax.legend()
        axes[0].set_ylim(-8, 40)
        table: list[Values] = []
        for row in rows:
            about = {name: row.flat()[name] for name in ("potential", "temperature")}
            about |= {name: row.values[name] for name in ("divergence", "constant", "maximum_at_one")}
            points = zip(row.arrays["epsilon"], row.arrays["slope"])
            table += [{**about, "epsilon": float(e), "slope": float(s)} for e, s in points]
        note = "lines: theory; dotted: its leading terms as ε → 0, with the constant fitted at the smallest ε"
        return Picture(drawing, table, f"binary perceptron, κ = {signed(margin)}, α = {alpha:g}", note)

    return Figure("dφ/dq near q = 1 for finite and diverging potentials", picture, theory=theory)
