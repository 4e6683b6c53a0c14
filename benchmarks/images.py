"""Real images: the fraction of instances solved, held-out accuracy, localization with automatic damping, and hard loads.

    SOLSPACE_DATA=/path/to/images python benchmarks/images.py            # everything, about two hours on one core
    python benchmarks/images.py solved --instances 20                    # one part, fewer instances

Each line is a measured figure with its standard error beside what is asked of it; of hard loads, a row of a table.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator

import numpy as np

import solspace as ss

TAU = ss.Target(potential="log", temperature=0.5)
HINGE = ss.Target(potential="hinge", temperature=1.0)
ERRORS = ss.Target(potential="errors", temperature=1.0)
NAMES = {TAU: "tau", HINGE: "SA hinge", ERRORS: "SA errors"}


def final(problem: ss.Perceptron, n_sweeps: int, rng: int) -> np.ndarray:
    """Return the weights (n,) in which one annealed chain ends."""
    schedule = "tau" if problem.target == TAU else "temperature"
    return ss.anneal(problem, n_chains=1, n_sweeps=n_sweeps, schedule=schedule, rng=rng).weights[0]


def fraction(
    images: ss.data.Images, target: ss.Target, alpha: float, n_sweeps: int, seeds: range, features: int | None = None
) -> np.ndarray:
    """Return for the instance of each seed whether the chain's final state solves it, bool."""
    outcome = []
    for i in seeds:
        problem = ss.Perceptron.from_data(*images, alpha, features=features, target=target, rng=i)
        outcome.append(problem.violations(final(problem, n_sweeps, i)) == 0)
    return np.array(outcome)


def accuracies(
    images: ss.data.Images, target: ss.Target, alpha: float, n_sweeps: int, seeds: range, held_out: int
) -> np.ndarray:
    """Return for the instance of each seed the accuracy of one final state on images it has not seen."""
    X, y = images
    outcome = []
    for i in seeds:
        problem = ss.Perceptron.from_data(X, y, alpha, target=target, rng=i)
        weights = final(problem, n_sweeps, i)
        unseen = np.setdiff1d(np.arange(len(y)), ss.data.subset(y, problem.m, rng=i))
        unseen = np.random.default_rng(i).permutation(unseen)[:held_out]
        outcome.append(np.mean(np.sign(X[unseen] @ weights.astype(np.float32)) == y[unseen]))
    return np.array(outcome)


def line(what: str, values: np.ndarray, asked: str, start: float) -> None:
    error = values.std(ddof=1) / np.sqrt(len(values))
    count = f"{len(values)} instances, {time.time() - start:.0f} s"
    print(f"{what:58s} {values.mean():.3f} ± {error:.3f}   asked: {asked:24s} ({count})", flush=True)


def solved(seeds: range) -> None:
    images = ss.data.load("mnist")
    asked = {
        (100, TAU): {0.4: ".96 ± .10", 0.5: ".74 ± .10", 0.6: ".37 ± .10"},
        (100, HINGE): {0.4: ".72 ± .12", 0.5: ".60 ± .12", 0.6: ".27 ± .12"},
        (784, TAU): {0.5: "at least .90"},
    }
    for (n_sweeps, target), points in asked.items():
        for alpha, wanted in points.items():
            start = time.time()
            outcome = fraction(images, target, alpha, n_sweeps, seeds)
            line(f"mnist centred, {n_sweeps} sweeps, alpha {alpha}, {NAMES[target]}", outcome, wanted, start)


def features(seeds: range) -> None:
    images = ss.data.load("mnist")
    for target, wanted in ((TAU, "at least .9"), (ERRORS, "at most .2"), (HINGE, "(seen before: .35)")):
        start = time.time()
        outcome = fraction(images, target, 0.8, 1024, seeds, features=1024)
        line(f"mnist features N = 1024, 1024 sweeps, alpha 0.8, {NAMES[target]}", outcome, wanted, start)


def accuracy(seeds: range) -> None:
    images = ss.data.load("mnist")
    for target, wanted in ((TAU, "at least .93"), (HINGE, ".02 below tau"), (ERRORS, ".02 below tau")):
        start = time.time()
        outcome = accuracies(images, target, 0.4, 784, seeds[:10], 6000)
        line(f"mnist held out, 784 sweeps, alpha 0.4, {NAMES[target]}", outcome, wanted, start)


def localized(seeds: range) -> None:
    images = ss.data.load("mnist")
    for alpha, wanted in ((0.3, "at least .9"), (0.5, "at least .7")):
        start = time.time()
        outcome = []
        for i in seeds[:20]:
            problem = ss.Perceptron.from_data(*images, alpha, rng=i)
            outcome.append(ss.localize(problem, n_samples=4, damping="auto", rng=i).solved.mean())
        line(f"mnist centred, ASL, damping auto, alpha {alpha}", np.array(outcome), wanted, start)


HARD = (("mnist", 0.6), ("mnist", 0.7), ("mnist", 0.8), ("fashion", 0.5), ("fashion", 0.6))
Method = Callable[[ss.Perceptron, int], ss.Samples]
METHODS: dict[str, Method] = {
    "τ-annealing, n sweeps": lambda problem, i: ss.anneal(problem, SAMPLES, problem.n, rng=i),
    "the same, then exchange for 200": lambda problem, i: ss.anneal(
        problem, SAMPLES, problem.n, n_extra=200, thin=200, exchange=True, rng=i
    ),
    "localization, EP": lambda problem, i: ss.localize(problem, SAMPLES, denoiser="ep", rng=i),
    "localization, AMP": lambda problem, i: ss.localize(problem, SAMPLES, denoiser="amp", rng=i),
}
SAMPLES = 16


def hard(seeds: range) -> None:
    """Print what each method reaches where chains hardly do, and how many samples' message passing converged all the way."""
    print(
        "| data | α | method | solved | unmet constraints: best, median, worst | CPU s a sample | converged throughout |"
    )
    print("|---|---|---|---|---|---|---|", flush=True)
    for name, alpha in HARD:
        images = ss.data.load(name)
        problems = [ss.Perceptron.from_data(*images, alpha, target=TAU, rng=i) for i in seeds[:3]]
        for words, method in METHODS.items():
            print(f"| {name} | {alpha} | {words} | {' | '.join(reached(method, problems, seeds))} |", flush=True)


def reached(method: Method, problems: list[ss.Perceptron], seeds: range) -> list[str]:
    """Return cells of the table for the samples of all problems."""
    start, unmet, sure = time.process_time(), [], []
    for problem, i in zip(problems, seeds):
        with warnings.catch_warnings():  # they say what the last column does
            warnings.simplefilter("ignore")
            samples = method(problem, i)
        unmet += problem.violations(samples.weights).tolist()
        sure += ["converged at every step" in word for word in getattr(samples.info, "status", ())]
    spent = (time.process_time() - start) / len(unmet)
    best, median, worst = np.quantile(unmet, [0, 0.5, 1]).astype(int)
    told = f"{sum(sure)}/{len(sure)}" if sure else "—"
    return [f"{unmet.count(0)}/{len(unmet)}", f"{best}, {median}, {worst}", f"{spent:.2g}", told]


PARTS: dict[str, Callable[[range], None]] = {
    "solved": solved,
    "features": features,
    "accuracy": accuracy,
    "localized": localized,
    "hard": hard,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all unless given")
    parser.add_argument(
        "--instances", type=int, default=100, help="of each point; at most 3, 10 or 20 where they are dear"
    )
    parser.add_argument("--first", type=int, default=0, help="seed of the first instance")
    given = parser.parse_args()
    for name in _known(given.parts, parser):
        PARTS[name](range(given.first, given.first + given.instances))


def _known(names: list[str], parser: argparse.ArgumentParser) -> Iterator[str]:
    for name in names or PARTS:
        if name not in PARTS:
            parser.error(f"unknown part {name!r}; known: {', '.join(PARTS)}")
        yield name


if __name__ == "__main__":
    main()
