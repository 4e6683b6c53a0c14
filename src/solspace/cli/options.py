"""Options of the verbs, each described once: a dataclass field with its help, check and choices.

A verb is a function whose parameters are such fields, or dataclasses of them; `verb` takes these apart for Typer. Samplers'
options are the fields of their configurations. Options that cannot apply are refused, never ignored: a `Rule` says what
an option needs. Defaults break no rule; a value that the user wrote and that would change nothing does.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from solspace.cli.output import fail, leave_quietly
from solspace.system.checks import Check, Config

LARGEST = 1 << 31  # no number of anything reaches this; only a seed may
Offer = Callable[[], Iterable[str | tuple[str, str]]]  # what the shell completes: names, or names with what they are
# types that Typer reads; a value of any other type is read from text by the check of its option
_KINDS = (bool, int, float, str, Path, int | None, float | None, str | None, Path | None, list[str] | None)


def option(
    default: object, help: str, flag: str = "", panel: str = "", offer: Offer | None = None, check: Check | None = None
) -> Any:
    """Return the field of an option; `flag` is its spelling, by default its name."""
    return field(default=default, metadata={"help": help, "flag": flag, "panel": panel, "offer": offer, "check": check})


def argument(help: str, metavar: str, offer: Offer | None = None, default: object = MISSING) -> Any:
    """Return the field of an argument without a flag."""
    return field(default=default, metadata={"help": help, "metavar": metavar, "offer": offer})


def sampler_option(config: type[Config], name: str, prefix: str = "") -> Any:
    """Return the field `name` of a sampler's configuration; `prefix` begins its help."""
    found = config.__dataclass_fields__[name]
    return field(default=found.default, metadata={**found.metadata, "help": prefix + found.metadata["help"]})


def registered(module: str) -> Offer:
    """Return what offers the names in a module's registry, the user's own among them."""
    return lambda: import_module(module).REGISTRY


POTENTIALS = registered("solspace.measure.potentials")
AS_JSON = option(False, "Print the result as JSON on standard output, nothing else.", "--json")
MARGIN = option(0.0, "κ: what a stability must reach.")


@dataclass(frozen=True)
class TargetOptions:
    """The arguments of `Target`."""

    PANEL: ClassVar = "Target"
    prior: str = option(
        "binary",
        "binary, spherical, ternary, levels(-3,-1,1,3), gaussian(1).",
        offer=registered("solspace.measure.priors"),
    )
    potential: str = option(
        "log", "uniform, log, log_band(K), hinge, probit(σ), logistic(a), flip(ε), ...", offer=POTENTIALS
    )
    temperature: float | None = option(None, "T, by default 0.5 (1 of likelihoods); inf is the uniform measure.")
    margin: float = MARGIN


@dataclass(frozen=True)
class Rule:
    """The `options` (names separated by spaces) apply where `where` is true of all values; `words` say so.

    `words` follow the option's name and end the sentence: "belongs to --sampler asl". `where` takes the values as
    attributes, and `subcommand`, the command of a group that follows.
    """

    options: str
    where: Callable[[SimpleNamespace], bool]
    words: str


TEMPERATURE = Rule(
    "temperature",
    lambda o: not o.potential.startswith(("uniform", "band")),
    "has no effect on a potential that has no energy (uniform, band)",
)


@dataclass(frozen=True)
class _Option:
    name: str
    kind: Any
    field: Field[Any]
    panel: str | None = None

    @property
    def spelled(self) -> str:
        about = self.field.metadata
        return about.get("metavar") or about.get("flag") or "--" + self.name.removeprefix("n_").replace("_", "-")

    @property
    def parameter(self) -> inspect.Parameter:
        about, default = self.field.metadata, self.field.default
        choices = about.get("choices")
        shared = {"help": about["help"], "autocompletion": (lambda: choices) if choices else about.get("offer")}
        if "metavar" in about:
            made = typer.Argument(metavar=self.spelled, **shared)
        else:
            made = typer.Option(self.spelled, rich_help_panel=about.get("panel") or self.panel, **shared)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is MISSING else default,
            annotation=Annotated[self.kind if self.kind in _KINDS else str, made],
        )

    def read(self, value: Any) -> Any:
        if isinstance(value, str) and self.kind == float | str:
            with suppress(ValueError):
                value = float(value)
        if isinstance(value, int) and abs(value) >= LARGEST and self.name != "seed":
            raise ValueError(
                f"{self.spelled} must be smaller than 2^31; got a number of {len(str(abs(value)))} digits."
            )
        check = self.field.metadata.get("check")
        return value if check is None or value is None else check(self.spelled.partition("/")[0], value)


def verb(*rules: Rule) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the decorator that makes a command for Typer: options are held to `rules`, and an error is one sentence."""

    def command(function: Callable[..., None]) -> Callable[..., None]:
        options, groups = _options_of(function)

        def run(*, context: typer.Context, **values: Any) -> None:
            try:
                values = _checked(context, values, options, rules)
                for name, kind in groups.items():
                    values[name] = kind(**{one.name: values.pop(one.name) for one in fields(kind)})
                if context.invoked_subcommand is None:
                    function(**values)
                sys.stdout.flush()
            except (typer.Exit, typer.Abort):
                raise
            except BrokenPipeError:
                leave_quietly()
            except KeyboardInterrupt:
                fail("stopped; nothing was written.", code=130)
            except Exception as error:
                if context.find_root().params.get("debug"):
                    raise
                fail(*_described(error))

        context = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        parameters = [*(one.parameter for one in options.values()), context]
        run.__name__, run.__doc__ = function.__name__, function.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return command


def _options_of(function: Callable[..., None]) -> tuple[dict[str, _Option], dict[str, Any]]:
    """Return the options of a verb by name, and its parameters that are dataclasses of options."""
    options, groups = dict[str, _Option](), dict[str, Any]()
    hints = get_type_hints(function)
    for name, parameter in inspect.signature(function).parameters.items():
        kind = hints[name]
        if is_dataclass(kind):
            groups[name], kinds, panel = kind, get_type_hints(kind), getattr(kind, "PANEL", None)
            options |= {one.name: _Option(one.name, kinds[one.name], one, panel) for one in fields(kind)}
        else:
            options[name] = _Option(name, kind, parameter.default)
    return options, groups


def _checked(
    context: typer.Context, values: dict[str, Any], options: dict[str, _Option], rules: Iterable[Rule]
) -> dict[str, Any]:
    """Return the checked values; raise ValueError for the first rule that an option which the user wrote does not keep."""
    values = {name: options[name].read(value) for name, value in values.items()}
    sources = {name: getattr(context.get_parameter_source(name), "name", "") for name in options}
    chosen = SimpleNamespace(**values, subcommand=context.invoked_subcommand)
    for rule in rules:
        for name in rule.options.split():
            if sources[name] == "COMMANDLINE" and not rule.where(chosen):
                raise ValueError(f"{options[name].spelled} {rule.words}.")
    return values


def _described(error: Exception) -> tuple[str, int]:
    """Return the sentence for an error, and the exit code: 2 for wrong input, 1 for what fails later."""
    from solspace.samplers.device import NoDevice
    from solspace.system.compiled import JitDisabled

    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    files = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, (ValueError, ImportError, NoDevice, JitDisabled, *files)):
        return words, 2
    if isinstance(error, OSError):
        return words, 1
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this ({words}); ask for less.", 1
    what = "the numbers left the range of the computation" if isinstance(error, ArithmeticError) else "this failed"
    return f"{what} ({type(error).__name__}: {words}); `solspace --debug ...` shows where.", 1
