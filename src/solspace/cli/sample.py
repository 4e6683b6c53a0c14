"""`solspace sample`: draw fair samples of a problem, judge them by the exact law, theory or chains, and make a picture."""

from __future__ import annotations

import re
import shlex
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

import solspace as ss
from solspace.cli import problem as inputs
from solspace.cli.options import AS_JSON, TEMPERATURE, Rule, TargetOptions, option, sampler_option, verb
from solspace.cli.output import Table, fail, make_room, say, show, write_json, write_picture
from solspace.cli.problem import ProblemOptions, about
from solspace.enumeration import PAIRS
from solspace.info import AnnealingInfo, Info, LocalizationInfo
from solspace.numerics.streams import child, generator, seed_sequence
from solspace.samplers.annealing.anneal import AnnealConfig
from solspace.samplers.device import resolve
from solspace.samplers.localization.localize import LocalizeConfig, choose_denoiser
from solspace.samplers.registry import SAMPLERS, Sampler
from solspace.samplers.solving.solve import emptiness
from solspace.system.checks import unknown, whole
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

ALIASES = {"sa": "temperature"}  # names of samplers that are usual elsewhere
DRAWS = 100  # of a chain from its sweeps at the end
FILES = ("samples.npz", "report.json", "samples.png")
_ASL, _CHAINS = "asl: ", "tau, tempering, temperature: "
# chains that judge localized samples, the fewest that can, and the sweeps of their schedule and again after it
CHAINS, FEWEST, SWEEPS = 64, 8, 1000
WORK = 2e11  # flips times constraints that the judges may cost, about two minutes of a core
DENOISERS = {"amp": "AMP", "ep": "expectation propagation"}


def _fair(option: str, name: str) -> str:
    """Return the registered name of a sampler of fair samples."""
    name = ALIASES.get(name, name)
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    if not SAMPLERS[name].fair:
        raise ValueError(f"{option} {name} would draw no fair samples; it has a verb of its own: solspace {name}.")
    return name


@dataclass(frozen=True)
class SamplerOptions:
    """The sampler, and what the command line offers of samplers' configurations."""

    PANEL: ClassVar = "Sampler"
    sampler: str = option(
        "asl",
        "How: asl, tau, tempering, temperature (or sa) or exact (see above).",
        offer=lambda: [(one.name, one.about) for one in SAMPLERS.values() if one.fair],
        check=_fair,
    )
    samples: int = option(16, "How many samples (chains for tau, tempering and temperature).", check=whole(1))
    seed: int = option(0, "Same seed, same result; asl on real-valued patterns up to rounding.", check=whole(0))
    accuracy: str = sampler_option(LocalizeConfig, "accuracy", _ASL)
    denoiser: str = sampler_option(LocalizeConfig, "denoiser", _ASL)
    damping: float | str = sampler_option(LocalizeConfig, "damping", _ASL)
    precision: str = sampler_option(LocalizeConfig, "precision", _ASL)
    n_sweeps: int | None = sampler_option(AnnealConfig, "n_sweeps", _CHAINS)
    n_extra: int = sampler_option(AnnealConfig, "n_extra", _CHAINS)
    exchange: bool = sampler_option(AnnealConfig, "exchange", "tau, tempering: ")
    device: str = sampler_option(LocalizeConfig, "device")

    @property
    def config(self) -> Any:
        """The configuration of the sampler."""
        kind = SAMPLERS[self.sampler].config
        options = {**vars(self), "thin": max(1, self.n_extra // DRAWS)}
        return kind(**{name: options[name] for name in kind.__dataclass_fields__ if name in options})


def _belongs(name: str) -> Rule:
    """Return the rule for an option of some samplers."""
    having = " and ".join(f"--sampler {one.name}" for one in SAMPLERS.values() if one.fair and name in one.options)
    return Rule(name, lambda o: name in SAMPLERS[o.sampler].options, f"belongs to {having}")


RULES = (
    Rule("denoiser", lambda o: o.denoiser != "ep" or o.prior == "binary", "ep takes ±1 weights; amp takes spherical ones too"),
    Rule("damping", lambda o: o.denoiser != "ep", "belongs to AMP: it cannot stand beside --denoiser ep"),
    *map(_belongs, ("accuracy", "denoiser", "damping", "precision", "n_sweeps", "n_extra")),
    Rule("exchange", lambda o: o.sampler in ("tau", "tempering"), "belongs to --sampler tau and --sampler tempering"),
    Rule("exchange", lambda o: o.n_extra > 0, "needs --extra, the sweeps in which replicas are exchanged"),
    Rule("resume", lambda o: o.sampler != "exact", "has nothing to go on from with --sampler exact, which takes seconds"),
    Rule("device", lambda o: o.sampler != "exact" or o.device != "gpu", "gpu cannot be had with --sampler exact"),
    *inputs.RULES,
    Rule(
        "prior",
        lambda o: o.sampler == "asl" or not SAMPLERS[o.sampler].lacks(1, ss.Target(o.prior, "log")),
        "must be binary, ternary or levels with --sampler exact",
    ),
    Rule(
        "potential",
        lambda o: o.sampler != "tau" or o.potential.partition("(")[0].strip() in ("log", "log_band", "wall"),
        "must be log, log_band or wall with --sampler tau, which ends there; --sampler tempering takes others",
    ),
    Rule(
        "potential",
        lambda o: o.sampler != "temperature" or o.potential in ("hinge", "errors"),
        "must be hinge or errors with --sampler temperature, which anneals on one of them",
    ),
    Rule(
        "temperature",
        lambda o: o.sampler != "temperature",
        "has no effect with --sampler temperature, which goes from 1 to 0",
    ),
    Rule("intercept", lambda o: o.sampler != "exact", "cannot stand beside --sampler exact, which draws none"),
    TEMPERATURE,
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """Samples, and what is printed and written of them."""

    samples: ss.Samples
    report: Values
    table: Table
    picture: Callable[[Sequence[Axes]], object]
    panels: int = 3
    verdict: str = ""


@verb(*RULES)
def sample(
    sampling: SamplerOptions,
    stated: ProblemOptions,
    target: TargetOptions,
    out: Path = option(Path("."), "Folder for samples.npz, report.json, samples.png."),
    resume: bool = option(False, "Go on from where the same command was stopped."),
    as_json: bool = AS_JSON,
) -> None:
    """Draw fair samples of a perceptron's solution space: a table, `samples.npz`, `report.json` and a picture.

    With no options: a random instance with ±1 weights under the log potential at T = 0.5, load 0.3, by ASL. The exit code is
    1 where solutions are sought and no sample is one.

    {}
    """
    sampler = SAMPLERS[sampling.sampler]
    if sampling.device != "cpu":
        resolve(sampling.device)  # which may be missing
    checkpoint = out / f"{sampler.name}.checkpoint.npz"
    make_room(out, [*FILES, checkpoint.name])
    measure, rng = ss.Target(**vars(target)), generator(sampling.seed, 0)
    problem, notes = stated.build(measure, rng, n=sampler.size, alpha=0.3, quiet=as_json)
    if not resume:
        checkpoint.unlink(missing_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {as_options(str(message), sampler)}")
            if sampler.name == "exact":
                outcome = _enumerated(problem, sampling)
            else:
                outcome = _sampled(problem, sampling, checkpoint, quiet=as_json)
            samples = outcome.samples
            drawn = {"problem": about(problem.with_target(samples.target)), "samples": len(samples)}
            report = {"sampler": sampler.name, **drawn, "solved": int(samples.solved.sum()), **outcome.report, **notes}
            samples.save(out / FILES[0])
            write_json(out / FILES[1], report)
            size = (4 + 3 * outcome.panels, 4)
            write_picture(
                out / FILES[2],
                lambda figure: outcome.picture(figure.subplots(1, outcome.panels, squeeze=False)[0]),
                size,
            )
    except KeyboardInterrupt:
        fail(f"stopped; {_resume_hint(checkpoint)}", code=130)
    except OSError as error:
        raise OSError(f"cannot write the results ({error}); {_resume_hint(checkpoint)}") from error
    checkpoint.unlink(missing_ok=True)
    parts = outcome.table, outcome.verdict
    show(report, parts, as_json, f"wrote samples.npz, report.json and samples.png to {out}")
    if samples.target.potential.hard and not samples.solved.any():
        fail(_shortfall(problem, samples, out), code=1)


_LISTED = "\n\n    ".join(f"- `{one.name}`: {one.about}." for one in SAMPLERS.values() if one.fair)
sample.__doc__ = (sample.__doc__ or "").format(_LISTED)


def _enumerated(problem: ss.Perceptron, sampling: SamplerOptions) -> Outcome:
    law = problem.enumerate()
    info = Info(sampler="exact", seed=str(sampling.seed))
    drawn = ss.Samples.of(problem, law.sample(sampling.samples, rng=generator(sampling.seed, 1)), info)
    overlap, stability = float(law.marginals @ law.marginals) / problem.n, float(np.dot(*law.stability_distribution()))
    pairs = problem.target.prior.name == "binary" or len(law.log_weights) <= PAIRS
    seen, means = drawn.overlaps(), drawn.stabilities.mean(axis=1)
    error = f" ± {means.std(ddof=1) / np.sqrt(len(means)):.4f}" if len(means) > 1 else ""
    rows = [
        ("solved", f"{int(drawn.solved.sum())}/{len(drawn)}", ""),
        ("mean stability", f"{means.mean():.4f}{error}", f"{stability:.4f}"),
        ("overlap of two samples", f"{seen.mean():.3f}" if len(seen) else "-", f"{overlap:.4f}"),
        ("solutions", "", f"{law.n_solutions} of {len(law.log_weights)}"),
        ("entropy per weight", "", f"{law.entropy:.4f}"),
    ]
    report = {
        "log_partition": law.log_partition,
        "entropy": law.entropy,
        "n_solutions": law.n_solutions,
        "overlap": {"samples": float(seen.mean()) if len(seen) else None, "exact": overlap},
        "mean_stability": {"samples": float(means.mean()), "exact": stability},
    }

    def picture(axes: Sequence[Axes]) -> None:
        from solspace.plots.samples import overlap_bars, stability_bars

        stability_bars(drawn, axes[0], *law.stability_distribution())
        if pairs:
            overlap_bars(drawn, axes[1], *law.overlap_distribution())

    return Outcome(drawn, report, Table(str(problem), rows, ("", "samples", "exact")), picture, panels=1 + pairs)


def _sampled(problem: ss.Perceptron, sampling: SamplerOptions, checkpoint: Path, quiet: bool) -> Outcome:
    """Draw samples, and judge them by theory, or localized ones by chains where there is none."""
    sampler, config, progress = SAMPLERS[sampling.sampler], sampling.config, False if quiet else None
    seeds, localized, judges = seed_sequence(sampling.seed), isinstance(config, LocalizeConfig), 0
    if localized:
        prediction, theory = _predicted(problem)
        note = f"theory: {theory}"
        if prediction is None:
            denoiser, _ = choose_denoiser(problem, config)
            judges, judged = _judges(problem)
            note += f"\ndenoiser: {DENOISERS[denoiser]}; {judged}."
        if not quiet:
            say(note)
    options = {"progress": progress, "checkpoint": checkpoint, **vars(config)}
    drawn = sampler.draw(problem, sampling.samples, rng=child(seeds, 1), **options)
    chains = None
    if judges:
        plan = AnnealConfig(n_sweeps=SWEEPS, n_extra=SWEEPS, thin=SWEEPS // 20, device=config.device)
        chains = _judge(problem).draw(problem, judges, rng=child(seeds, 2), progress=progress, **vars(plan))
    if not localized:
        prediction, theory = _predicted(problem.with_target(drawn.target))
        if prediction is None and not problem.structure() and not quiet:
            say(f"theory: {theory}")
    return _judged(problem, sampler, drawn, prediction, chains)


def _judges(problem: ss.Perceptron) -> tuple[int, str]:
    """Return how many chains judge localized samples, and in words why none do."""
    lacking = _judge(problem).lacks(problem.n, problem.target).rstrip(".")
    number = int(min(CHAINS, WORK // (problem.n * problem.m * 2 * SWEEPS)))
    if lacking or number < FEWEST:
        return 0, f"no chains judge the samples, since {lacking or 'the problem is too large for them'}"
    return number, f"{number} chains judge the samples"


def _judge(problem: ss.Perceptron) -> Sampler:
    """Return the chains that judge localized samples: those that end in the target."""
    return SAMPLERS["tempering" if SAMPLERS["tau"].lacks(problem.n, problem.target) else "tau"]


def _predicted(problem: ss.Perceptron) -> tuple[ss.Prediction | None, str]:
    """Return theory's prediction where the patterns look random, and its summary or why there is none."""
    if structure := problem.structure():
        return None, f"none, since the patterns do not look random ({structure})."
    try:
        prediction = ss.predict(problem.target, problem.alpha)
    except ValueError as error:
        return None, str(error)
    return prediction, prediction.summary()


def _judged(
    problem: ss.Perceptron,
    sampler: Sampler,
    drawn: ss.Samples,
    prediction: ss.Prediction | None,
    chains: ss.Samples | None,
) -> Outcome:
    sampled, judged = problem.with_target(drawn.target), ss.diagnose(drawn, prediction, chains)
    report, rows = judged.to_dict(), judged.rows()
    if isinstance(drawn.info, LocalizationInfo):
        report |= {"denoiser": drawn.info.denoiser, "reason": drawn.info.reason}
        rows.insert(0, ("denoiser", DENOISERS[drawn.info.denoiser], ""))
    verdict, notes = judged.verdict, list(judged.notes)
    binary = sampled.target.prior.name == "binary" and problem.plain
    if prediction is not None:
        report["prediction"] = prediction.to_dict()
    elif binary:
        counted = ss.count(sampled, method="exact" if sampled.n <= 30 else "ep", progress=False)
        report["solutions"] = counted.to_dict()
        rows.append(("log of the number of solutions", f"{counted.log:.2f}" + " ~" * (not counted.exact), ""))
        if not counted.exact:
            notes.append(f"~ is {counted.status}; solspace count gives one.")
    if binary and not drawn.solved.any() and (empty := emptiness(sampled)):
        verdict = f"failed: there is no solution: {empty}"
    table = Table(str(problem), rows, ("", "samples", "theory" if chains is None else "chains"))
    picture = partial(drawn.plot, "all", prediction=prediction, reference=chains)
    verdict = as_options("\n".join([verdict, *notes]), sampler)
    return Outcome(drawn, report, table, picture, verdict=verdict)


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
    if sampler.config is not AnnealConfig:
        words = words.replace("; run ", "; run --sampler tau with ")
    for name, spelled in _OPTIONS.items():
        words = words.replace(name, spelled)
    return re.sub(r'\b(accuracy|denoiser|damping)="?(\w+(?:\.\w+)?)"?', r"--\1 \2", words)


def _resume_hint(checkpoint: Path) -> str:
    """Return what is kept of a run, and how to go on."""
    if not checkpoint.exists():
        return "nothing was kept: a run keeps its state from its first five seconds on."
    again = [word for word in sys.argv[1:] if word != "--resume"]
    return f"the state of the run is kept. To go on: {shlex.join(['solspace', *again, '--resume'])}"


def _shortfall(problem: ss.Perceptron, samples: ss.Samples, out: Path) -> str:
    unmet = int(samples.target.violated(samples.stabilities).sum(axis=1).min())
    kept = f"with {unmet} of {samples.m} unmet at best; see {out / FILES[0]}"
    if (
        samples.target.prior.name == "binary"
        and problem.plain
        and (empty := emptiness(problem.with_target(samples.target)))
    ):
        return f"there is no solution: {empty} The samples are not solutions, {kept}."
    ways = ["a lower load"]
    if isinstance(samples.info, AnnealingInfo):
        ways.append("more --sweeps")
    elif not SAMPLERS["tau"].lacks(samples.n, samples.target):
        ways.append("--sampler tau")
    if not SAMPLERS["solve"].lacks(samples.n, samples.target):
        ways.append("solspace solve, which goes further")
    number = f"none of the {len(samples)} samples meets" if len(samples) > 1 else "the sample does not meet"
    return f"{number} all constraints, {kept}. Try {', or '.join(ways)}."
