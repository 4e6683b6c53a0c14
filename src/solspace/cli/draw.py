"""The samplers as the command line sees them: a problem and settings in, samples with a table and a picture out."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from solspace.cli.app import say
from solspace.info import Info, LocalizationInfo
from solspace.numerics.streams import child, generator, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.localization.localize import LocalizeConfig, choose_denoiser
from solspace.samplers.registry import SAMPLERS, Sampler
from solspace.samplers.solving.counting import count, emptiness
from solspace.samples import Samples
from solspace.system.plain import Values

CHAINS, FEWEST, SWEEPS = 64, 8, 1000
"""Chains that judge localized samples, the fewest that can, and the sweeps of their schedule and again after it."""
WORK = 2e11
"""Flips times constraints that the judges may cost, about two minutes of a core."""

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from solspace.theory.prediction import Prediction

DENOISERS = {"amp": "AMP", "ep": "expectation propagation"}


@dataclass(frozen=True)
class Settings:
    """What the user asked for."""

    samples: int
    seed: int
    options: Values
    """Options of samplers; each takes those that are its own."""
    checkpoint: Path
    resume: bool
    quiet: bool

    @property
    def progress(self) -> bool | None:
        """Whether to show a bar: never beside JSON, else where somebody looks."""
        return False if self.quiet else None


@dataclass(frozen=True)
class Outcome:
    """What the user gets."""

    samples: Samples
    report: Values
    rows: Sequence[Sequence[str]]
    columns: Sequence[str]
    verdict: str
    picture: Callable[[Figure], None]
    size: tuple[float, float] = (10, 4)
    empty: str = ""
    """Why there is no solution at all, where that is proved."""


def _exact(problem: Perceptron, settings: Settings) -> Outcome:
    law = problem.enumerate()
    info = Info(sampler="exact", seed=str(settings.seed))
    drawn = Samples.of(problem, law.sample(settings.samples, rng=generator(settings.seed, 1)), info)
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
        **_about(problem, "exact", drawn),
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


def _sampled(problem: Perceptron, sampler: Sampler, settings: Settings) -> Outcome:
    options = {name: value for name, value in settings.options.items() if name in sampler.options}
    localized = issubclass(sampler.info, LocalizationInfo)
    if not settings.resume:
        settings.checkpoint.unlink(missing_ok=True)
    before, judges = _announced(problem, settings, options) if localized else (None, 0)
    drawn = sampler.draw(
        problem,
        settings.samples,
        rng=child(seed_sequence(settings.seed), 1),
        progress=settings.progress,
        checkpoint=settings.checkpoint,
        **options,
    )
    final = problem.with_target(drawn.target)
    prediction = before
    if not localized:
        prediction, words = _expectation(final)
        if prediction is None and not problem.structure() and not settings.quiet:
            say(f"theory: {words}")
    return _judged(final, drawn, sampler.name, prediction, _chains(final, judges, settings) if judges else None)


def _announced(problem: Perceptron, settings: Settings, options: Values) -> tuple[Prediction | None, int]:
    """Return theory's prediction of a localization and the number of chains that judge it instead, and say both."""
    prediction, words = _expectation(problem)
    judges, why_none = (0, "") if prediction is not None else _judges(problem)
    if not settings.quiet:
        say(f"theory: {words}")
        if prediction is None:
            name, _ = choose_denoiser(problem, LocalizeConfig(**options))
            judging = (
                f"no chains judge the samples, since {why_none}" if why_none else f"{judges} chains judge the samples"
            )
            say(f"denoiser: {DENOISERS[name]}; {judging}.")
    return prediction, judges


def _judges(problem: Perceptron) -> tuple[int, str]:
    """Return how many chains can judge localized samples, and why none can."""
    if lacking := SAMPLERS["tau"].lacks(problem.n, problem.target):
        return 0, lacking.rstrip(".")
    number = int(min(CHAINS, WORK // (problem.n * problem.m * 2 * SWEEPS)))
    return (number, "") if number >= FEWEST else (0, "the problem is too large for them")


def _chains(problem: Perceptron, number: int, settings: Settings) -> Samples:
    return SAMPLERS["tau"].draw(
        problem, number, rng=child(seed_sequence(settings.seed), 2), n_sweeps=SWEEPS, n_extra=SWEEPS, thin=SWEEPS // 20,
        device=settings.options["device"], progress=settings.progress,
    )  # fmt: skip


def _expectation(problem: Perceptron) -> tuple[Prediction | None, str]:
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
    problem: Perceptron, drawn: Samples, name: str, prediction: Prediction | None, chains: Samples | None
) -> Outcome:
    from solspace.diagnostics import diagnose

    judged = diagnose(drawn, prediction, chains)
    report = {**_about(problem, name, drawn), **judged.to_dict()}
    if isinstance(drawn.info, LocalizationInfo):
        report |= {"denoiser": drawn.info.denoiser, "reason": drawn.info.reason}
    rows = [*_denoised(drawn), *judged.rows()]
    verdict, notes, empty = judged.verdict, list(judged.notes), ""
    if prediction is None and problem.target.prior.name == "binary":
        counted = count(problem)
        report["solutions"] = asdict(counted)
        rows.append(("log of the number of solutions", str(counted).partition(":")[0], ""))
        if counted.doubt:
            notes.append(f"do not trust the number of solutions: {counted.doubt}.")
    if problem.target.prior.name == "binary" and not drawn.solved.any() and (empty := emptiness(problem)):
        verdict = f"failed: there is no solution: {empty}"
    if prediction is not None:
        report["prediction"] = prediction.to_dict()

    def picture(figure: Figure) -> None:
        from solspace.plots.samples import sample_kinds, sample_panels

        sample_panels(drawn, figure.subplots(1, len(sample_kinds(drawn))), prediction, chains)

    columns = ("", "samples", "theory" if chains is None else "chains")
    return Outcome(
        drawn, report, rows, columns, as_options("\n".join([verdict, *notes]), name), picture, (13, 4), empty
    )


_OPTIONS = {
    'accuracy="careful", a smaller step': "--accuracy careful", "a smaller step": "--accuracy careful",
    "exchange=True": "--exchange", "n_extra": "--extra", "n_sweeps": "--sweeps", "n_chains": "--samples",
    "n_samples": "--samples", "n >=": "--n >=", "ss.anneal": "--sampler tau", "ss.localize": "--sampler asl",
}  # fmt: skip


def as_options(words: str, sampler: str) -> str:
    """Return advice with the arguments and functions that it names as options of a command line with that `sampler`.

    >>> as_options("cannot tell: x; run n_extra >= 4000, or try exchange=True.", "tau")
    'cannot tell: x; run --extra >= 4000, or try --exchange.'
    >>> as_options("cannot tell: (not mixed: x; run n_extra >= 4000).", "asl")
    'cannot tell: (not mixed: x; run --sampler tau with --extra >= 4000).'
    >>> as_options('Try accuracy="careful", denoiser="amp" or damping=0.9, or ss.anneal.', "asl")
    'Try --accuracy careful, --denoiser amp or --damping 0.9, or --sampler tau.'
    """
    if "n_extra" not in SAMPLERS[sampler].options:
        words = words.replace("; run ", "; run --sampler tau with ")
    for name, option in _OPTIONS.items():
        words = words.replace(name, option)
    return re.sub(r'\b(accuracy|denoiser|damping)="?(\w+(?:\.\w+)?)"?', r"--\1 \2", words)


def _denoised(drawn: Samples) -> list[tuple[str, str, str]]:
    """Return the row that says which denoiser ran; why is in the report."""
    if not isinstance(drawn.info, LocalizationInfo):
        return []
    return [("denoiser", DENOISERS[drawn.info.denoiser], "")]


def _about(problem: Perceptron, name: str, drawn: Samples) -> Values:
    about = {"n": problem.n, "m": problem.m, "alpha": problem.alpha, "target": problem.target.to_dict()}
    return {"sampler": name, "problem": about, "samples": len(drawn), "solved": int(drawn.solved.sum())}


def with_error(values: ArrayLike) -> str:
    """Return mean ± standard error of `values`."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.4f}"
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def draw(problem: Perceptron, sampler: Sampler, settings: Settings) -> Outcome:
    """Return what `sampler` makes of `problem`, with the table and the picture that go with it."""
    return _exact(problem, settings) if sampler.name == "exact" else _sampled(problem, sampler, settings)
