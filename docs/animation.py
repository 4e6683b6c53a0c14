"""Draw the animated picture of the README with the package itself: ``python docs/animation.py`` (about a minute).

One run of stochastic localization: as t grows, the field separates, the means of the weights settle at ±1, and the stabilities of
the means become those of a fair sample.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.animation import FuncAnimation, PillowWriter

import solspace as ss
from solspace.plots import style

FOLDER = Path(__file__).parent / "images"
TARGET = ss.Target("binary", "log", temperature=0.5)
COLOURS = {"light": ("white", "black", "#3b70b5", "#c44e52"), "dark": ("#0d1117", "#e6edf3", "#79a8e8", "#ff7b72")}


def run(n: int = 1001, alpha: float = 0.35) -> tuple[ss.Perceptron, list[tuple[float, np.ndarray, np.ndarray]]]:
    """Return a problem and one localization of it: times, fields and means."""
    problem = ss.Perceptron.random(n, alpha, TARGET, rng=4)
    frames: list[tuple[float, np.ndarray, np.ndarray]] = []

    def denoiser(field, time):
        mean = np.array([ss.amp(problem, h, float(t)).mean for h, t in zip(field, time)])
        frames.append((float(time[0]), field[0].copy(), mean[0]))
        return mean

    times = np.concatenate([[0.0], np.geomspace(0.02, 20.0, 60)])
    ss.localize(problem, 1, rng=5, denoiser=denoiser, step=times, integrator="euler", finish=0, progress=False)
    return problem, frames


def animate(problem: ss.Perceptron, frames: list[tuple[float, np.ndarray, np.ndarray]], scheme: str) -> None:
    """Write the animation in a colour scheme."""
    paper, ink, fill, line = COLOURS[scheme]
    density = ss.predict(TARGET, problem.alpha).stability_density
    s = np.linspace(-1.5, 4.0, 400)
    edges = np.arange(-12.5, 36) * 4 / np.sqrt(problem.n)  # stabilities of ±1 weights lie on a lattice of spacing 2/√n
    shown = np.argsort(frames[-1][2] * np.abs(frames[len(frames) // 3][1]))[:: problem.n // 60][:60]
    with style.style():
        figure, axes = style.panels(3, width=3.4, height=2.9)
        figure.set_facecolor(paper)

        def draw(number: int) -> list[object]:
            time, field, mean = frames[min(number, len(frames) - 1)]
            for ax in axes:
                ax.clear()
                ax.set_facecolor(paper)
                ax.tick_params(colors=ink)
                ax.grid(False)
                for part in (ax.title, ax.xaxis.label, ax.yaxis.label, *ax.spines.values()):
                    (part.set_edgecolor if part in ax.spines.values() else part.set_color)(ink)
            left, middle, right = axes
            left.hist(field / (1 + time), np.linspace(-3, 3, 49), color=fill)
            left.set(title=f"field $h/(1+t)$,  t = {time:.2f}", yticks=[], xlim=(-3, 3), ylim=(0, problem.n / 4))
            middle.bar(np.arange(len(shown)), mean[shown], color=fill, width=1.0)
            middle.set(title="means of 60 weights", xticks=[], ylim=(-1.05, 1.05))
            stabilities = problem.patterns @ mean / np.sqrt(problem.n)
            right.hist(stabilities, edges, density=True, color=fill)
            right.plot(s, np.where(s > 0, density(s), np.nan), color=line, lw=1.8)
            right.set(title="stabilities, and theory (line)", yticks=[], xlim=(-1.5, 4.0), ylim=(0, 1.0))
            right.axvline(0.0, color=ink, lw=0.8)
            return []

        film = FuncAnimation(figure, draw, frames=len(frames) + 15, blit=False)
        film.save(
            FOLDER / f"localization-{scheme}.gif", PillowWriter(fps=10), dpi=80, savefig_kwargs={"facecolor": paper}
        )


def main() -> None:
    """Write both colour schemes."""
    problem, frames = run()
    for scheme in COLOURS:
        animate(problem, frames, scheme)


if __name__ == "__main__":
    main()
