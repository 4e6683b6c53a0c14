"""A problem and a sampler in; samples with a table, a report and a picture out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from solspace.cli.output import say
from solspace.info import Info, LocalizationInfo
from solspace.numerics.streams import child, generator, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.anneal import AnnealConfig
from solspace.samplers.localization.localize import LocalizeConfig, choose_denoiser
from solspace.samplers.registry import SAMPLERS, Sampler
from solspace.samplers.solving.counting import count, emptiness
from solspace.samples import Samples
from solspace.system.checks import Config
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from solspace.theory.prediction import Prediction

CHAINS, FEWEST, SWEEPS = 64, 8, 1000
"""Chains that judge localized samples, the fewest that can, and the sweeps of their schedule and again after it."""
WORK = 2e11
"""Flips times constraints that the judges may cost, about two minutes of a core."""
DENOISERS = {"amp": "AMP", "ep": "expectation propagation"}
Row = tuple[str, str, str]


@dataclass(frozen=True)
class Run:
    """A sampler with its configuration, and how it is run."""

    sampler: Sampler
    config: Config
    samples: int
    seed: int
    checkpoint: Path
    resume: bool
    """Whether to go on from the checkpoint."""
    quiet: bool


@dataclass(frozen=True)
class Outcome:
    """Samples, and what is printed and written of them."""

    samples: Samples
    report: Values
    rows: Sequence[Row]
    columns: Row
    verdict: str
    picture: Callable[[Figure], object]
    size: tuple[float, float] = (10, 4)
    empty: str = ""
    """Why there is no solution at all, where that is proved."""


def draw(problem: Perceptron, run: Run) -> Outcome:
    """Return samples of `problem` beside the exact law, theory or chains."""
    return _enumerated(problem, run) if run.sampler.name == "exact" else _sampled(problem, run)


def _enumerated(problem: Perceptron, run: Run) -> Outcome:
    law = problem.enumerate()
    info = Info(sampler="exact", seed=str(run.seed))
    drawn = Samples.of(problem, law.sample(run.samples, rng=generator(run.seed, 1)), info)
    overlaps, mass = law.overlap_distribution()
    overlap, stability = float(overlaps @ mass), float(np.dot(*law.stability_distribution()))
    seen = drawn.overlaps()
    rows = [
        ("solved", f"{int(drawn.solved.sum())}/{len(drawn)}", ""),
        ("mean stability", with_error(drawn.stabilities.mean(axis=1)), f"{stability:.4f}"),
        ("overlap of two samples", f"{seen.mean():.3f}" if len(seen) else "-", f"{overlap:.4f}"),
        ("solutions", "", f"{law.n_solutions} of {1 << problem.n}"),
        ("entropy per weight", "", f"{law.entropy:.4f}"),
    ]
    report = {
        **_about(problem, run, drawn),
        "log_partition": law.log_partition,
        "entropy": law.entropy,
        "n_solutions": law.n_solutions,
        "overlap": {"samples": float(seen.mean()) if len(seen) else None, "exact": overlap},
        "mean_stability": {"samples": float(drawn.stabilities.mean()), "exact": stability},
    }

    def picture(figure: Figure) -> None:
        from solspace.plots.samples import overlap_bars, stability_bars

        left, right = figure.subplots(1, 2)
        stability_bars(drawn, left, *law.stability_distribution())
        overlap_bars(drawn, right, overlaps, mass)

    return Outcome(drawn, report, rows, ("", "samples", "exact"), "", picture)


def _sampled(problem: Perceptron, run: Run) -> Outcome:
    localized = isinstance(run.config, LocalizeConfig)
    prediction, judges = _announced(problem, run) if localized else (None, 0)
    seed = child(seed_sequence(run.seed), 1)
    shown = False if run.quiet else None
    options = {"progress": shown, "checkpoint": run.checkpoint, **vars(run.config)}
    drawn = run.sampler.draw(problem, run.samples, rng=seed, **options)
    problem = problem.with_target(drawn.target)
    if not localized:
        prediction, words = _predicted(problem)
        if prediction is None and not problem.structure() and not run.quiet:
            say(f"theory: {words}")
    return _judged(problem, run, drawn, prediction, _chains(problem, judges, run) if judges else None)


def _announced(problem: Perceptron, run: Run) -> tuple[Prediction | None, int]:
    """Return theory's prediction of a localization and the number of chains that judge it instead; print both."""
    prediction, words = _predicted(problem)
    judges, why_none = (0, "") if prediction is not None else _judges(problem)
    if not run.quiet:
        say(f"theory: {words}")
        if prediction is None:
            assert isinstance(run.config, LocalizeConfig)
            name, _ = choose_denoiser(problem, run.config)
            none = f"no chains judge the samples, since {why_none}"
            say(f"denoiser: {DENOISERS[name]}; {none if why_none else f'{judges} chains judge the samples'}.")
    return prediction, judges


def _judges(problem: Perceptron) -> tuple[int, str]:
    """Return how many chains can judge localized samples, and why none can."""
    if lacking := SAMPLERS["tau"].lacks(problem.n, problem.target):
        return 0, lacking.rstrip(".")
    number = int(min(CHAINS, WORK // (problem.n * problem.m * 2 * SWEEPS)))
    return (number, "") if number >= FEWEST else (0, "the problem is too large for them")


def _chains(problem: Perceptron, number: int, run: Run) -> Samples:
    config = AnnealConfig(n_sweeps=SWEEPS, n_extra=SWEEPS, thin=SWEEPS // 20, device=vars(run.config)["device"])
    seed = child(seed_sequence(run.seed), 2)
    return SAMPLERS["tau"].draw(problem, number, rng=seed, progress=False if run.quiet else None, **vars(config))


def _predicted(problem: Perceptron) -> tuple[Prediction | None, str]:
    """Return theory's prediction where the patterns look random, and its summary or why there is none."""
    from solspace.theory.prediction import predict

    if structure := problem.structure():
        return None, f"none, since the patterns do not look random ({structure})."
    try:
        prediction = predict(problem.target, problem.alpha)
    except ValueError as error:
        return None, str(error)
    return prediction, prediction.summary()


def _judged(
    problem: Perceptron, run: Run, drawn: Samples, prediction: Prediction | None, chains: Samples | None
) -> Outcome:
    from solspace.diagnostics import diagnose

    about = _about(problem, run, drawn)
    judged = diagnose(drawn, prediction, chains)
    report = {**about, **judged.to_dict()}
    rows = list(judged.rows())
    if isinstance(drawn.info, LocalizationInfo):
        report |= {"denoiser": drawn.info.denoiser, "reason": drawn.info.reason}
        rows.insert(0, ("denoiser", DENOISERS[drawn.info.denoiser], ""))
    verdict, notes, empty = judged.verdict, list(judged.notes), ""
    binary = problem.target.prior.name == "binary"
    if prediction is not None:
        report["prediction"] = prediction.to_dict()
    elif binary:
        counted = count(problem)
        report["solutions"] = asdict(counted)
        rows.append(("log of the number of solutions", str(counted).partition(":")[0], ""))
        if counted.doubt:
            notes.append(f"do not trust the number of solutions: {counted.doubt}.")
    if binary and not drawn.solved.any() and (empty := emptiness(problem)):
        verdict = f"failed: there is no solution: {empty}"

    def picture(figure: Figure) -> None:
        from solspace.plots.samples import sample_panels, sample_pictures

        sample_panels(drawn, figure.subplots(1, len(sample_pictures(drawn))), prediction, chains)

    columns = ("", "samples", "theory" if chains is None else "chains")
    advice = as_options("\n".join([verdict, *notes]), run.sampler)
    return Outcome(drawn, report, rows, columns, advice, picture, (13, 4), empty)


_OPTIONS = {
    'accuracy="careful", a smaller step': "--accuracy careful", "a smaller step": "--accuracy careful",
    "exchange=True": "--exchange", "n_extra": "--extra", "n_sweeps": "--sweeps", "n_chains": "--samples",
    "n_samples": "--samples", "n >=": "--n >=", "ss.anneal": "--sampler tau", "ss.localize": "--sampler asl",
}  # fmt: skip


def as_options(words: str, sampler: Sampler) -> str:
    """Return advice with the arguments and functions that it names as options of a command line with `sampler`.

    >>> as_options("cannot tell: x; run n_extra >= 4000, or try exchange=True.", SAMPLERS["tau"])
    'cannot tell: x; run --extra >= 4000, or try --exchange.'
    >>> as_options("cannot tell: (not mixed: x; run n_extra >= 4000).", SAMPLERS["asl"])
    'cannot tell: (not mixed: x; run --sampler tau with --extra >= 4000).'
    >>> as_options('Try accuracy="careful", denoiser="amp" or damping=0.9, or ss.anneal.', SAMPLERS["asl"])
    'Try --accuracy careful, --denoiser amp or --damping 0.9, or --sampler tau.'
    """
    if "n_extra" not in sampler.options:
        words = words.replace("; run ", "; run --sampler tau with ")
    for name, option in _OPTIONS.items():
        words = words.replace(name, option)
    return re.sub(r'\b(accuracy|denoiser|damping)="?(\w+(?:\.\w+)?)"?', r"--\1 \2", words)


def _about(problem: Perceptron, run: Run, drawn: Samples) -> Values:
    about = {"n": problem.n, "m": problem.m, "alpha": problem.alpha, "target": problem.target.to_dict()}
    return {"sampler": run.sampler.name, "problem": about, "samples": len(drawn), "solved": int(drawn.solved.sum())}


def with_error(values: ArrayLike) -> str:
    """Return mean ± standard error of `values`."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.4f}"
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"
