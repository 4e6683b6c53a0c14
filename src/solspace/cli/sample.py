"""`solspace sample`: draw fair samples of a problem, say how fair, and make a picture."""

from __future__ import annotations

import shlex
import sys
import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import ClassVar

from solspace.cli import problem as inputs
from solspace.cli.draw import Outcome, Run, as_options, draw
from solspace.cli.options import AS_JSON, TEMPERATURE, Rule, TargetOptions, option, sampler_option, verb
from solspace.cli.output import fail, make_room, say, show_json, show_table, write_json, write_picture
from solspace.cli.problem import ProblemOptions
from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.annealing.anneal import AnnealConfig
from solspace.samplers.device import resolve
from solspace.samplers.localization.localize import LocalizeConfig
from solspace.samplers.registry import SAMPLERS, Sampler, find
from solspace.samples import Samples
from solspace.system.checks import Config, whole
from solspace.system.plain import Values

ALIASES = {"sa": "temperature"}
"""Other names of samplers that are usual elsewhere."""
DRAWS = 100
"""Draws of a chain from its sweeps at the end."""
FILES = ("samples.npz", "report.json", "samples.png")
_ASL, _CHAINS = "asl: ", "tau, temperature: "


@dataclass(frozen=True)
class SamplerOptions:
    """The sampler, and what the command line offers of samplers' configurations."""

    PANEL: ClassVar = "Sampler"
    sampler: str = option(
        "asl",
        "How: asl, tau, temperature (or sa) or exact (see above).",
        offer=lambda: [(one.name, one.about) for one in SAMPLERS.values() if one.fair],
    )
    samples: int = option(16, "How many samples (chains for tau and temperature).", check=whole(1))
    seed: int = option(0, "Same seed, same result; asl on real-valued patterns up to rounding.", check=whole(0))
    accuracy: str = sampler_option(LocalizeConfig, "accuracy", _ASL)
    denoiser: str = sampler_option(LocalizeConfig, "denoiser", _ASL)
    damping: float | str = sampler_option(LocalizeConfig, "damping", _ASL)
    precision: str = sampler_option(LocalizeConfig, "precision", _ASL)
    n_sweeps: int | None = sampler_option(AnnealConfig, "n_sweeps", _CHAINS)
    n_extra: int = sampler_option(AnnealConfig, "n_extra", _CHAINS)
    exchange: bool = sampler_option(AnnealConfig, "exchange", "tau: ")
    device: str = sampler_option(LocalizeConfig, "device")

    def config(self, sampler: Sampler) -> Config:
        """Return the configuration of a sampler."""
        options = {**vars(self), "thin": max(1, self.n_extra // DRAWS)}
        return sampler.config(**{one.name: options[one.name] for one in fields(sampler.config) if one.name in options})


def _named(name: str) -> Sampler:
    chosen = find(ALIASES.get(name, name))
    if not chosen.fair:
        raise ValueError(f"--sampler {name} would draw no fair samples; it has a verb of its own: solspace {name}.")
    return chosen


def _belongs(name: str) -> Rule:
    """Return the rule for an option of some samplers."""
    having = " and ".join(f"--sampler {one.name}" for one in SAMPLERS.values() if one.fair and name in one.options)
    return Rule(name, lambda o: name in _named(o.sampler).options, f"belongs to {having}")


RULES = (
    Rule("denoiser", lambda o: o.denoiser != "ep" or o.prior == "binary", "ep takes ±1 weights; amp takes spherical ones too"),
    Rule("damping", lambda o: o.denoiser != "ep", "belongs to AMP: it cannot stand beside --denoiser ep"),
    *map(_belongs, ("accuracy", "denoiser", "damping", "precision", "n_sweeps", "n_extra")),
    Rule("exchange", lambda o: _named(o.sampler).name == "tau", "belongs to --sampler tau"),
    Rule("exchange", lambda o: o.n_extra > 0, "needs --extra, the sweeps in which replicas are exchanged"),
    Rule("resume", lambda o: o.sampler != "exact", "has nothing to go on from with --sampler exact, which takes seconds"),
    Rule("device", lambda o: o.sampler != "exact" or o.device != "gpu", "gpu cannot be had with --sampler exact"),
    *inputs.RULES,
    Rule(
        "prior",
        lambda o: o.prior == "binary" or _named(o.sampler).name == "asl",
        "must be binary with --sampler tau, temperature and exact; --sampler asl takes spherical weights",
    ),
    Rule(
        "potential",
        lambda o: o.sampler != "tau" or o.potential.partition("(")[0].strip() in ("log", "log_band", "wall"),
        "must be log, log_band or wall with --sampler tau, which ends there",
    ),
    Rule(
        "potential",
        lambda o: _named(o.sampler).name != "temperature" or o.potential in ("hinge", "errors"),
        "must be hinge or errors with --sampler temperature, which anneals on one of them",
    ),
    Rule(
        "temperature",
        lambda o: _named(o.sampler).name != "temperature",
        "has no effect with --sampler temperature, which goes from 1 to 0",
    ),
    TEMPERATURE,
)  # fmt: skip


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
    sampler = _named(sampling.sampler)
    config = sampling.config(sampler)
    resolve(sampling.device)
    checkpoint = out / f"{sampler.name}.checkpoint.npz"
    make_room(out, [*FILES, checkpoint.name])
    measure, rng = Target(**vars(target)), generator(sampling.seed, 0)
    problem, notes = stated.build(measure, rng, n=sampler.size, alpha=0.3, quiet=as_json)
    run = Run(sampler, config, sampling.samples, sampling.seed, checkpoint, resume, quiet=as_json)
    outcome = _finished(problem, run, out, notes)
    if as_json:
        show_json(outcome.report)
    else:
        show_table(str(problem), outcome.rows, outcome.columns)
        if outcome.verdict:
            print(outcome.verdict)
        say(f"wrote samples.npz, report.json and samples.png to {out}")
    if _no_solution_found(outcome.samples):
        fail(_shortfall(outcome, out), code=1)


_LISTED = "\n\n    ".join(f"- `{one.name}`: {one.about}." for one in SAMPLERS.values() if one.fair)
sample.__doc__ = (sample.__doc__ or "").format(_LISTED)


def _finished(problem: Perceptron, run: Run, out: Path, notes: Values) -> Outcome:
    """Run the sampler and write its results; only then the checkpoint goes."""
    if not run.resume:
        run.checkpoint.unlink(missing_ok=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {as_options(str(message), run.sampler)}")
            outcome = draw(problem, run)
            outcome.report.update(notes)
            outcome.samples.save(out / FILES[0])
            write_json(out / FILES[1], outcome.report)
            write_picture(out / FILES[2], outcome.picture, outcome.size)
    except KeyboardInterrupt:
        fail(f"stopped; {_resume_hint(run.checkpoint)}", code=130)
    except OSError as error:
        raise OSError(f"cannot write the results ({error}); {_resume_hint(run.checkpoint)}") from error
    run.checkpoint.unlink(missing_ok=True)
    return outcome


def _resume_hint(checkpoint: Path) -> str:
    """Return what is kept of a run, and how to go on."""
    if not checkpoint.exists():
        return "nothing was kept: a run keeps its state from its first five seconds on."
    again = [word for word in sys.argv[1:] if word != "--resume"]
    return f"the state of the run is kept. To go on: {shlex.join(['solspace', *again, '--resume'])}"


def _no_solution_found(samples: Samples) -> bool:
    """Return whether solutions were sought, which a soft potential does not, and no sample is one."""
    seeks = samples.target.potential.hard or isinstance(samples.info, AnnealingInfo)
    return seeks and not samples.solved.any()


def _shortfall(outcome: Outcome, out: Path) -> str:
    samples = outcome.samples
    unmet = int(samples.target.violated(samples.stabilities).sum(axis=1).min())
    number = f"none of the {len(samples)} samples meets" if len(samples) > 1 else "the sample does not meet"
    kept = f"with {unmet} of {samples.m} unmet at best; see {out / FILES[0]}"
    if outcome.empty:
        return f"there is no solution: {outcome.empty} The samples are not solutions, {kept}."
    ways = ["a lower load"]
    if isinstance(samples.info, AnnealingInfo):
        ways.append("more --sweeps")
    elif not SAMPLERS["tau"].lacks(samples.n, samples.target):
        ways.append("--sampler tau")
    if not SAMPLERS["solve"].lacks(samples.n, samples.target):
        ways.append("solspace solve, which goes further")
    return f"{number} all constraints, {kept}. Try {', or '.join(ways)}."
