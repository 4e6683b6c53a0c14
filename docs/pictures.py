"""Draw the pictures of the pages with the package itself: ``python docs/pictures.py`` (about a minute).

With names, as in ``python docs/pictures.py classifier-calibration``, only those; ``tutorial`` are those of the tutorial.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, make_classification

import solspace as ss
from solspace.cli.fit import draw_calibration, held_out
from solspace.learn import LowBitClassifier
from solspace.plots import style
from solspace.plots.samples import overlap_histogram, stability_histogram
from solspace.plots.theory import free_entropy, overlap_path

FOLDER = Path(__file__).parent / "images"
TUTORIAL = Path(__file__).parent / "howto" / "another-margin.md"
LOG = ss.Target("binary", "log", temperature=0.5)
UNIFORM = ss.Target("binary", "uniform")


def solution_space():
    """A sphere with caps cut off, and all corners of a cube in twelve dimensions."""
    figure, (left, right) = style.panels(2, width=4.9, height=3.8, width_ratios=[1, 1.7])
    y, x = np.mgrid[1:-1:601j, -1:1:601j]
    inside = x**2 + y**2 <= 1
    z = np.sqrt(np.clip(1 - x**2 - y**2, 0, None))
    points = np.sqrt(3) * np.stack([x[inside], y[inside], z[inside]], axis=1)
    problem = ss.Perceptron.random(3, 10 / 3, ss.Target("spherical", "uniform", margin=-0.8), "gaussian", rng=419)
    missed = problem.violations(points)
    shade = 0.55 + 0.45 * (points @ [-0.35, 0.45, 0.82]) / np.sqrt(3)
    colours = np.where(missed[:, None] == 0, [0.23, 0.44, 0.71], [0.87, 0.87, 0.87]) * shade[:, None]
    picture = np.ones((601, 601, 3))
    picture[inside] = np.clip(colours, 0, 1)
    left.imshow(picture, extent=(-1, 1, -1, 1))
    left.set_title(
        f"weights on a sphere, N = 3, M = {problem.m}, κ = {problem.target.margin:g}:\neach pattern cuts off a cap"
    )
    left.axis("off")

    law = ss.Perceptron.random(13, 0.4, LOG, rng=3).enumerate()
    gray = np.arange(128) ^ (np.arange(128) >> 1)  # neighbours differ by one weight
    weight = law.probabilities[gray[:64, None] + (gray[None, :] << 6)]
    right.imshow(np.where(weight > 0, weight**0.25, np.nan), cmap="Blues", vmin=-0.2 * weight.max() ** 0.25)
    right.set_title(
        f"±1 weights, N = 13, M = {law.problem.m}: {law.n_solutions} of 8192 corners of a cube\n"
        "are solutions (dark: likelier under U = −log s)"
    )
    right.set(xticks=[], yticks=[])
    right.spines[["top", "right"]].set_visible(True)
    right.grid(False)
    return figure


def fair():
    """Solutions of a solver and fair samples of the same problem, on theory."""
    problem = ss.Perceptron.random(1001, 0.3, LOG, rng=0)
    prediction = ss.predict(LOG, 0.3)
    samples = ss.localize(problem, n_samples=32, rng=1)
    found = ss.anneal(problem, 32, 4000, "temperature", rng=1)
    solver = ss.Samples.of(problem, found.weights[found.solved])
    figure, axes = style.panels(2, width=4.4, height=3.4, rows=2, sharex="col")
    for row, found, name in zip(axes, (solver, samples), ("a solver: simulated annealing", "fair: ASL")):
        stability_histogram(found, row[0], prediction)
        overlap_histogram(found, row[1], prediction)
        row[0].set(title=f"{name}", xlabel="stability $s$")
        row[1].set(title="overlaps of pairs")
    axes[0, 0].set_xlim(-0.5, 4)
    return figure


def localization():
    """The belief of an exact localization, and the frequencies of what it ends in."""
    problem = ss.Perceptron.random(9, 0.25, LOG, rng=4)
    law = problem.enumerate()
    means: list[np.ndarray] = []

    def denoise(field, time):
        mean = law.posterior_mean(field)
        means.append(np.concatenate([time[:1], mean[0]]))
        return mean

    ss.localize(problem, n_samples=1, rng=5, denoiser=denoise, final_time=12.0, step=0.02, integrator="euler")
    course = np.array(means)
    samples = ss.localize(problem, n_samples=4000, rng=1, denoiser=lambda field, time: law.posterior_mean(field))
    figure, (left, right) = style.panels(2, width=4.8, height=3.6)
    for i in range(problem.n):
        left.plot(course[:, 0], course[:, 1 + i], color=style.SERIES[i % len(style.SERIES)], lw=1.3)
    left.set(xlabel="time $t$", ylabel="believed weights $m_i(t)$", title="one run: the belief localizes on a corner")
    codes = ((samples.weights > 0) << np.arange(problem.n)).sum(axis=1)
    seen = np.bincount(codes, minlength=512) / len(samples)
    order = np.argsort(-law.probabilities)[: law.n_solutions]
    right.bar(np.arange(len(order)), seen[order], color=style.BLUE, alpha=0.55, label="4000 runs")
    right.plot(law.probabilities[order], "o", ms=3.5, color=style.RED, label="exact probability")
    right.set(
        xlabel=f"the {law.n_solutions} solutions, likeliest first",
        ylabel="probability",
        title="many runs: fair samples",
    )
    right.legend()
    return figure


def maxima():
    """φ_t(q) with one maximum and with two, and the paths that follow."""
    figure, axes = style.panels(3, width=3.1, height=3.1)
    free_entropy(ss.predict(LOG, 0.5), axes[0], [0.0, 1.0, 2.0, 3.0])
    axes[0].set_title("$U = -\\log s$: one maximum")
    two = ss.predict(UNIFORM, 0.5)
    free_entropy(two, axes[1], [0.0, 1.0, 2.0, 2.6])
    axes[1].set_title("$U = 0$: a second at $q = 1$")
    overlap_path(two, axes[2], np.linspace(0, 3.4, 300))
    maxwell, spinodal = two.windows[0].maxwell, two.windows[0].high
    axes[2].axvspan(0, maxwell, color=style.REGIMES["yellow"], alpha=0.35, lw=0)
    axes[2].axvspan(maxwell, spinodal, color=style.REGIMES["red"], alpha=0.3, lw=0)
    axes[2].set_title("$U = 0$: AMP stays low")
    return figure


def tau():
    """The potentials U_τ, and what lowering τ does to success."""
    figure, (left, right) = style.panels(2, width=4.6, height=3.5)
    s = np.linspace(-1.5, 2.5, 801)
    for value, colour in zip((1.0, 0.5, 0.2, 0.0), style.SERIES):
        potential = ss.potentials.Tau(value) if value else ss.potentials.Log()
        u = -potential.log_weight(s)
        left.plot(s, np.where(np.isfinite(u), u, np.nan), color=colour, label=f"τ = {value:g}")
    left.axvline(0, color=style.GREY, lw=1, ls="--")
    left.set(xlabel="stability $s$", ylabel=r"$U_\tau(s)$", ylim=(-1.5, 6), title="from a slope to a wall")
    left.legend()
    alphas = np.arange(0.1, 0.56, 0.05)
    for schedule, colour, marker in zip(("tau", "temperature"), (style.SERIES[0], style.SERIES[3]), style.MARKERS):
        solved = []
        for alpha in alphas:
            problems = (ss.Perceptron.random(1001, alpha, LOG, rng=i) for i in range(40))
            solved.append(np.mean([ss.anneal(p, 1, 100, schedule, rng=i).solved[0] for i, p in enumerate(problems)]))
        right.plot(
            alphas,
            solved,
            marker=marker,
            color=colour,
            label=f"lower {'τ' if schedule == 'tau' else 'the temperature'}",
        )
    right.set(xlabel=r"load $\alpha$", ylabel="fraction solved", title="N = 1001, 100 sweeps, 40 instances")
    right.legend(loc="center right")
    return figure


def tutorial() -> list[Path]:
    """Run the commands of the tutorial on another margin, whose pictures are what they write."""
    text = TUTORIAL.read_text(encoding="utf-8")
    made = {f"{name}.png": name for name in re.findall(r"--out (\w+)\.png", text)}
    made |= {"figures/spherical-free-entropy-quick-margin=-2.2-alpha=111.png": "free-entropy"}
    with TemporaryDirectory() as folder:
        for options in re.findall(r"^solspace (.+)$", text, re.MULTILINE):
            subprocess.run([sys.executable, "-m", "solspace", *shlex.split(options)], cwd=folder, check=True)
        for file, name in made.items():
            shutil.move(Path(folder) / file, FOLDER / f"margin-{name}.png")
    return [FOLDER / f"margin-{name}.png" for name in made.values()]


def calibration():
    """How often classifiers are right that are so sure, on rows left out of three tables."""
    figure, axes = style.panels(3, width=2.9, height=3.2)
    cancer, digits = load_breast_cancer(return_X_y=True), load_digits(return_X_y=True)
    made = make_classification(3000, 20, n_informative=6, flip_y=0.05, class_sep=0.6, random_state=2)
    tables = {"cancer": cancer, "made, 20 columns": made, "ten digits": digits}
    for ax, (title, (X, y)) in zip(axes, tables.items()):
        model = LowBitClassifier(random_state=0)
        draw_calibration(ax, held_out(X, y, model, "ternary", 5, 0, False), y, np.unique(y))
        ax.set_title(title)
    return figure


def samples():
    """What `samples.plot("all", prediction=...)` draws."""
    problem = ss.Perceptron.random(501, 0.3, LOG, rng=0)
    found = ss.localize(problem, n_samples=16, rng=1)
    with style.style(style.TEXT):
        figure, axes = style.panels(3, width=style.DOUBLE / 3, height=0.3 * style.DOUBLE)
        found.plot("all", axes, ss.predict(LOG, 0.3))
    return figure


PICTURES = {
    "idea-solution-space": solution_space,
    "idea-fair": fair,
    "idea-localization": localization,
    "idea-maxima": maxima,
    "idea-tau": tau,
    "classifier-calibration": calibration,
    "plot-samples": samples,
}


def main() -> None:
    """Draw those that are named, or all."""
    for name in sys.argv[1:] or [*PICTURES, "tutorial"]:
        if name == "tutorial":
            files = tutorial()
        else:
            with style.style():
                figure = PICTURES[name]()
            files = style.save(figure, FOLDER / name, formats=("png",))
        print(*(file.name for file in files), sep="\n", flush=True)


if __name__ == "__main__":
    main()
