"""`solspace sample`: draw fair samples of a problem, say how fair, and make a picture."""

from __future__ import annotations

import json
import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from solspace.cli import inputs
from solspace.cli.app import JSON, fail, make_room, say, show_json, show_table, verb
from solspace.cli.completion import choices, potentials, priors, samplers
from solspace.cli.draw import Outcome, Settings, as_options, draw
from solspace.cli.inputs import Stated, option
from solspace.cli.rules import TEMPERATURE, Rule
from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.device import resolve
from solspace.samplers.registry import SAMPLERS, Sampler, find
from solspace.samples import Samples
from solspace.system.files import replacing
from solspace.system.plain import Values, plain

ALIASES = {"sa": "temperature"}
"""Other names of samplers that are usual elsewhere."""
DRAWS = 100
"""Draws of a chain from its sweeps at the end."""
FILES = ("samples.npz", "report.json", "samples.png")
RULES = (
    Rule("denoiser", lambda o: o.denoiser != "ep" or o.prior == "binary", "ep takes ±1 weights; amp takes spherical ones too"),
    Rule("damping", lambda o: o.denoiser != "ep", "belongs to AMP: it cannot stand beside --denoiser ep"),
    Rule("samples sweeps", lambda o: min(o.samples, 1 if o.sweeps is None else o.sweeps) > 0, "must be at least 1"),
    Rule("extra", lambda o: o.extra >= 0, "must not be negative"),
    Rule(
        "accuracy denoiser damping precision",
        lambda o: "accuracy" in _named(o.sampler).options,
        "belongs to --sampler asl",
    ),
    Rule(
        "sweeps",
        lambda o: "n_sweeps" in _named(o.sampler).options,
        "belongs to --sampler tau and --sampler temperature",
    ),
    Rule("extra", lambda o: "n_extra" in _named(o.sampler).options, "belongs to --sampler tau and --sampler temperature"),
    Rule("exchange", lambda o: _named(o.sampler).name == "tau", "belongs to --sampler tau"),
    Rule("exchange", lambda o: o.extra > 0, "needs --extra, the sweeps in which replicas are exchanged"),
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


def _named(name: str) -> Sampler:
    chosen = find(ALIASES.get(name, name))
    if not chosen.fair:
        raise ValueError(f"--sampler {name} would draw no fair samples; it has a verb of its own: solspace {name}.")
    return chosen


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    listed = "\n\n    ".join(f"- `{one.name}`: {one.about}." for one in SAMPLERS.values() if one.fair)
    sample.__doc__ = (sample.__doc__ or "").replace("SAMPLERS", listed)
    app.command("sample")(verb(sample, *RULES))


def sample(
    sampler: Annotated[
        str, option("Sampler", "How: asl, tau, temperature (or sa) or exact (see above).", offer=samplers)
    ] = "asl",
    samples: Annotated[int, option("Sampler", "How many samples (chains for tau and temperature).")] = 16,
    seed: Annotated[int, option("Sampler", "Same seed, same result; asl on real-valued patterns up to rounding.")] = 0,
    accuracy: Annotated[
        str,
        option("Sampler", "asl: fast, careful, or auto: careful where it gets hard.", offer=choices("asl", "accuracy")),
    ] = "auto",
    denoiser: Annotated[
        str,
        option(
            "Sampler",
            "asl: amp, ep (any patterns, ±1 weights), or auto: ep for ±1 weights on patterns that do not look random.",
            offer=choices("asl", "denoiser"),
        ),
    ] = "auto",
    damping: Annotated[str, option("Sampler", "asl: a number from 0 to below 1, or auto.")] = "auto",
    precision: Annotated[
        str, option("Sampler", "asl: float32 or float64.", offer=choices("asl", "precision"))
    ] = "float32",
    sweeps: Annotated[
        int | None, option("Sampler", "tau, temperature: sweeps of the schedule; 1001 by default.")
    ] = None,
    extra: Annotated[
        int, option("Sampler", "tau, temperature: sweeps at the end, from which chains tell whether they are fair.")
    ] = 0,
    exchange: Annotated[
        bool,
        option("Sampler", "tau: exchange replicas with earlier stages in them: slow, for high loads.", "--exchange"),
    ] = False,
    device: Annotated[str, option("Sampler", "cpu, gpu, or auto.", offer=choices("asl", "device"))] = "cpu",
    n: Annotated[int | None, option("Random instance", "Number of weights.")] = None,
    alpha: Annotated[
        float | None,
        option("Random instance", "Load: constraints per weight; 0.3 (images: 0.4, your patterns: all) unless given."),
    ] = None,
    ensemble: inputs.Ensemble = "binary",
    patterns: inputs.Patterns = None,
    labels: inputs.Labels = None,
    data: inputs.Data = None,
    label: inputs.Label = None,
    index: inputs.Index = None,
    classes: inputs.Classes = None,
    features: inputs.Features = None,
    preprocess: inputs.Preprocess = None,
    scale: inputs.Scale = None,
    prior: Annotated[str, option("Target", "binary or spherical.", offer=priors)] = "binary",
    potential: Annotated[
        str, option("Target", "uniform, log, log_band(K), hinge, errors, tau(τ), band(K), ...", offer=potentials)
    ] = "log",
    temperature: Annotated[float, option("Target", "T; inf is the uniform measure.")] = 0.5,
    margin: Annotated[float, option("Target", "κ: what a stability must reach.")] = 0.0,
    out: Annotated[Path, option("Output", "Folder for samples.npz, report.json, samples.png.")] = Path("."),
    resume: Annotated[bool, option("Output", "Go on from where the same command was stopped.", "--resume")] = False,
    as_json: JSON = False,
) -> None:
    """Draw fair samples of a perceptron's solution space: a table, `samples.npz`, `report.json` and a picture.

    With no options: a random instance with ±1 weights under the log potential at T = 0.5, load 0.3, by ASL. The exit code is
    1 where solutions are sought and no sample is one.

    SAMPLERS
    """
    chosen = _named(sampler)
    resolve(device)
    checkpoint = out / f"{chosen.name}.checkpoint.npz"
    make_room(out, [*FILES, checkpoint.name])
    options: Values = {
        "accuracy": accuracy, "denoiser": denoiser, "damping": damping if damping == "auto" else _share(damping),
        "precision": precision, "device": device, "n_sweeps": sweeps, "n_extra": extra, "thin": max(1, extra // DRAWS),
        "exchange": exchange,
    }  # fmt: skip
    chosen.config(
        **{name: value for name, value in options.items() if name in chosen.options}
    )  # checked before any work
    target, rng = Target(prior, potential, temperature, margin), generator(seed, 0)
    size = chosen.size if n is None else n
    stated = Stated(
        size, 0.3, alpha, ensemble, patterns, labels, data, label, index, classes, features, preprocess, scale
    )
    posed = stated.posed(target, rng)
    problem, told = posed.problem, posed.tell(quiet=as_json)
    settings = Settings(samples, seed, options, checkpoint, resume, quiet=as_json)
    outcome = _finished(problem, chosen, settings, out, told)
    if as_json:
        show_json(outcome.report)
    else:
        show_table(str(problem), outcome.rows, outcome.columns)
        if outcome.verdict:
            print(outcome.verdict)
        say(f"wrote samples.npz, report.json and samples.png to {out}")
    if _in_vain(outcome.samples):
        fail(_shortfall(outcome, out), code=1)


def _in_vain(samples: Samples) -> bool:
    """Return whether solutions were asked for and none is among the samples: a soft potential asks for none."""
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


def _share(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"damping must be auto or a number; got {text!r}.") from None


def _finished(problem: Perceptron, sampler: Sampler, settings: Settings, out: Path, about: Values) -> Outcome:
    """Run the sampler and write its results; only then the checkpoint goes. Tell how to go on where this is stopped."""
    before = _written(settings.checkpoint)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, *_, **__: say(f"warning: {as_options(str(message), sampler.name)}")
            outcome = draw(problem, sampler, settings)
            outcome.report.update(about)
            _write(out, outcome)
    except KeyboardInterrupt:
        fail(f"stopped; {_way_on(settings, before)}", code=130)
    except OSError as error:
        raise OSError(f"cannot write the results ({error}); {_way_on(settings, before)}") from error
    settings.checkpoint.unlink(missing_ok=True)
    return outcome


def _written(checkpoint: Path) -> int | None:
    """Return when the checkpoint was written last."""
    return checkpoint.stat().st_mtime_ns if checkpoint.exists() else None


def _way_on(settings: Settings, before: int | None) -> str:
    """Return what is kept of a run whose checkpoint was last written at `before` when it began, and how to go on."""
    last = _written(settings.checkpoint)
    if last is None or (last == before and not settings.resume):
        return "nothing was kept: a run keeps its state from its first five seconds on."
    again = [word for word in sys.argv[1:] if word != "--resume"]
    return f"the state of the run is kept. To go on: {shlex.join(['solspace', *again, '--resume'])}"


def _write(out: Path, outcome: Outcome) -> None:
    from matplotlib.figure import Figure

    from solspace.plots.style import style

    outcome.samples.save(out / "samples.npz")
    with replacing(out / "report.json") as file:
        file.write(json.dumps(plain(outcome.report), indent=2).encode())
    with style(), replacing(out / "samples.png") as file:
        figure = Figure(figsize=outcome.size, layout="constrained")
        outcome.picture(figure)
        figure.savefig(file)
