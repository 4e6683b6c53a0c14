"""The settings of a page: one table of them, the query of a URL that carries them, and the program that repeats a run.

Every value is read from text by `parse`, which raises ValueError with a sentence for the user. The query of a URL holds
the fields that differ from the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from solspace.measure import Target
from solspace.measure.potentials import REGISTRY, as_potential
from solspace.problem import constraints
from solspace.samplers import registry
from solspace.system.checks import number, one_of, whole
from solspace.theory import planted
from solspace.theory.prediction import ENSEMBLES


class Number(NamedTuple):
    """A number on the page: its label, its symbol in sentences, its smallest and its largest value."""

    label: str
    symbol: str
    low: float
    high: float


class Choice(NamedTuple):
    """A name on the page: its label, and the values to choose from by their own labels."""

    label: str
    values: Mapping[str, str]


NUMBERS = {
    "temperature": Number("temperature T", "T", 0.05, 20),
    "margin": Number("margin κ", "κ", -6, 2),
    "alpha": Number("load α = M/N", "α", 0.001, 10_000),
    "time": Number("time t", "t", 0, 1000),
    "n": Number("weights N", "N", 3, 50_000),
    "samples": Number("samples", "samples", 1, 256),
    "sweeps": Number("sweeps", "sweeps", 1, 100_000),
    "seed": Number("seed", "seed", 0, 2**31 - 1),
}
BEGINNINGS = {"wall": "wall(-1, 2)"}  # initial parameters of potentials that have no defaults
MAX_ENTRIES = 10**8  # largest number of pattern entries (N times M) of a run
MAX_STABILITIES = 5 * 10**6  # largest number of stabilities (samples times M) of a run
CHOICES = {
    "ensemble": Choice("labels", dict(zip(("random", "planted teacher"), ENSEMBLES))),
    "prior": Choice(
        "weights",
        {
            "binary (±1)": "binary",
            "spherical": "spherical",
            "ternary (0, ±1)": "ternary",
            "levels (±1, ±3)": "levels(-3,-1,1,3)",
            "Gaussian (var. 1)": "gaussian(1)",
        },
    ),
    # `tau_wall`, a stage of τ-annealing, has no initial parameters
    "potential": Choice("potential U(s)", {name: name for name in REGISTRY if name != "tau_wall"}),
    "sampler": Choice("sampler", {s.title: name for name, s in registry.SAMPLERS.items() if s.any_patterns and s.fair}),
    "patterns": Choice("random patterns", {"binary (±1)": "binary", "Gaussian": "gaussian"}),
    "theme": Choice("", {name: name for name in ("auto", "light", "dark")}),
}


@dataclass(frozen=True)
class Settings:
    ensemble: str = "random"
    prior: str = "binary"
    potential: str = "log"
    temperature: float = 0.5  # of likelihoods 1
    margin: float = 0.0
    alpha: float = 0.3
    time: float = 1.0
    sampler: str = "asl"
    n: int = 1001
    samples: int = 16
    sweeps: int = 200
    patterns: str = "binary"
    seed: int = 0
    theme: str = "auto"

    @property
    def target(self) -> Target:
        return Target(self.prior, self.potential, self.temperature, self.margin)

    @property
    def theory(self) -> tuple[str, str]:
        """The target as JSON, and the ensemble: what functions of `curves` take."""
        return self.target.to_json(), self.ensemble

    @property
    def annealed(self) -> bool:
        return "n_sweeps" in registry.find(self.sampler).options

    def query(self) -> str:
        """Return the query of the URL: the fields that differ from the defaults, T from what is usual for the potential."""
        usual = {f.name: f.default for f in fields(self)} | {"temperature": usual_temperature(self.potential)}
        changed = {name: value for name in usual if (value := getattr(self, name)) != usual[name]}
        return urlencode(changed, safe="(),")

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> tuple[Settings, list[str]]:
        """Return the settings of a URL's query, and a sentence for each field that was refused."""
        values, refused = {}, []
        for name in (f.name for f in fields(cls) if f.name in query):
            try:
                values[name] = parse(name, query[name])
            except ValueError as error:
                refused.append(str(error))
        values.setdefault("temperature", usual_temperature(values.get("potential", cls.potential)))
        return cls(**values), refused

    def replace(self, name: str, value: Any) -> Settings:
        """Return the settings with one changed; a temperature that is usual for the potential follows it."""
        changes = {name: value}
        if name == "potential" and self.temperature == usual_temperature(self.potential):
            changes["temperature"] = usual_temperature(value)
        return replace(self, **changes)


def usual_temperature(potential: str) -> float:
    """Return the temperature of a target with this potential unless another is chosen: 1 for likelihoods, else 0.5."""
    return as_potential(potential).usual_temperature


def parse(name: str, text: str) -> Any:
    text = text.strip()
    if name == "potential":
        return _potential(text)
    if name in CHOICES:
        return one_of(CHOICES[name].values.values())(name, text)
    _, symbol, low, high = NUMBERS[name]
    top, slash, bottom = text.partition("/")
    try:
        value = float(top) / (float(bottom) if slash else 1.0)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{symbol} must be a number; got {text!r}.") from None
    if isinstance(getattr(Settings, name), int):
        return whole(int(low), int(high))(symbol, int(value) if value.is_integer() else value)
    return number(least=low, most=high)(symbol, value)


def refusal(settings: Settings, shape: tuple[int, int] | None = None) -> str:
    """Return why a run is refused, on random patterns or on patterns of `shape` (m, n); '' if it is not."""
    m, n = shape or (constraints(settings.alpha, settings.n), settings.n)
    if m * n > MAX_ENTRIES:
        limit = math.isqrt(int(MAX_ENTRIES / settings.alpha))
        return (
            f"N = {n} at α = {settings.alpha:g} makes {m * n:.2g} pattern entries and the page takes at most "
            f"{MAX_ENTRIES:.2g}: choose N ≤ {limit}."
        )
    if settings.samples * m > MAX_STABILITIES:
        return f"{settings.samples} samples of {m} constraints are too many for a page: at most {MAX_STABILITIES // m}."
    if settings.ensemble == "planted" and shape is None:
        try:
            planted.check(settings.target)
        except ValueError as error:
            return str(error)
    lacking = registry.find(settings.sampler).lacks(n, settings.target)
    return f"{lacking} Choose ASL." if lacking else ""


def _potential(text: str) -> str:
    potential = as_potential(BEGINNINGS.get(text, text))
    values = potential.parameters
    named = None in values.values()
    words = [f"{name}={x:.10g}" if named else f"{x:.10g}" for name, x in values.items() if x is not None]
    return f"{potential.name}({', '.join(words)})" if words else potential.name


def with_parameters(potential: str, texts: list[str]) -> str:
    """Return the potential of the same name with parameters read from `texts`; empty ones are left out.

    >>> with_parameters("band(1)", ["0.8"]), with_parameters("wall(-1, 2)", ["", "1.5"])
    ('band(0.8)', 'wall(upper=1.5)')
    """
    known = as_potential(potential)
    words = [f"{name}={text}" for name, text in zip(known.parameters, texts) if text.strip()]
    return parse("potential", f"{known.name}({', '.join(words)})")


def program(settings: Settings, own_patterns: bool = False, predicted: bool = True) -> str:
    """Return a Python program that repeats a run and saves its samples, which it compares with theory if they are `predicted`.

    >>> print(program(Settings()))
    import solspace as ss
    <BLANKLINE>
    target = ss.Target(prior='binary', potential='log', temperature=0.5, margin=0.0)
    problem = ss.Perceptron.random(n=1001, alpha=0.3, target=target, patterns='binary', rng=0)
    samples = ss.localize(problem, n_samples=16, rng=1)
    print(ss.diagnose(samples, ss.predict(samples.target, problem.alpha)))
    samples.save("samples.npz")
    <BLANKLINE>
    """
    s = settings
    imports, reference = "import solspace as ss", ", ss.predict(samples.target, problem.alpha"
    measure = f"prior={s.prior!r}, potential={s.potential!r}, temperature={s.temperature!r}, margin={s.margin!r}"
    instance = f"n={s.n}, alpha={s.alpha!r}, target=target, patterns={s.patterns!r}, rng={s.seed}"
    problem = f"problem = ss.Perceptron.{s.ensemble}({instance})"
    if s.ensemble != "random":
        reference += f", {s.ensemble!r}"
    reference += ")"
    if own_patterns:
        imports, predicted = f"import numpy as np\n{imports}", False
        read = 'patterns = np.load("patterns.npy", allow_pickle=False)  # your own file'
        problem = f"{read}\nproblem = ss.Perceptron(patterns, target=target)"
    draw = f"localize(problem, n_samples={s.samples}, rng={s.seed + 1})"
    if s.annealed:
        schedule = f"n_sweeps={s.sweeps}, schedule={s.sampler!r}"
        draw = f"anneal(problem, n_chains={s.samples}, {schedule}, rng={s.seed + 1})"
    return f"""{imports}

target = ss.Target({measure})
{problem}
samples = ss.{draw}
print(ss.diagnose(samples{reference if predicted else ""}))
samples.save("samples.npz")
"""
