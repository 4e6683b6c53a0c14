"""The settings of a page: their limits, the query of a URL that carries them, and the program that repeats a run.

Every value is read from text by `parse`, which raises ValueError with a sentence for the user. The query of a URL holds
the fields that differ from the defaults.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any
from urllib.parse import urlencode

from solspace.measure import Target, priors
from solspace.measure.potentials import REGISTRY, as_potential
from solspace.problem import ENSEMBLES, constraints
from solspace.samplers import registry
from solspace.system.checks import unknown

PRIORS = tuple(priors.REGISTRY)
SAMPLERS = {name: sampler.title for name, sampler in registry.SAMPLERS.items() if sampler.any_patterns and sampler.fair}
"""Samplers on the page, with their titles."""
THEMES = ("auto", "light", "dark")
CHOICES: dict[str, Collection[str]] = {
    "prior": PRIORS, "sampler": SAMPLERS, "patterns": ENSEMBLES, "theme": THEMES,
}  # fmt: skip
LIMITS = {
    "temperature": ("T", 0.05, 20),
    "margin": ("κ", -6, 2),
    "alpha": ("α", 0.001, 10_000),
    "time": ("t", 0, 1000),
    "n": ("N", 3, 50_000),
    "samples": ("samples", 1, 256),
    "sweeps": ("sweeps", 1, 100_000),
    "seed": ("seed", 0, 2**31 - 1),
}
"""Symbol, smallest and largest value of each number."""
BEGINNINGS = {"wall": "wall(-1, 2)"}
"""Initial parameters of potentials that have no defaults."""
MAX_ENTRIES = 10**8
"""Largest number of pattern entries (N times M) of a run."""
MAX_STABILITIES = 5 * 10**6
"""Largest number of stabilities (samples times M) of a run."""


@dataclass(frozen=True)
class Settings:
    """All settings of a page.

    >>> Settings(alpha=0.6).query()
    'alpha=0.6'
    >>> settings, refused = Settings.from_query({"alpha": "0.6", "temperature": "0"})
    >>> settings.alpha, settings.temperature, refused
    (0.6, 0.5, ['T must lie between 0.05 and 20; got 0.'])
    """

    prior: str = "binary"
    potential: str = "log"
    temperature: float = 0.5
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
        """The measure over the weights."""
        return Target(self.prior, self.potential, self.temperature, self.margin)

    @property
    def annealed(self) -> bool:
        """Whether the sampler anneals, in sweeps."""
        return "n_sweeps" in registry.find(self.sampler).options

    def query(self) -> str:
        """Return the query of the URL: the fields that differ from the defaults."""
        default = Settings()
        changed = {f.name: getattr(self, f.name) for f in fields(self)}
        return urlencode({k: v for k, v in changed.items() if v != getattr(default, k)}, safe="(),")

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> tuple[Settings, list[str]]:
        """Return the settings of a URL's query, and a sentence for each field that was refused."""
        settings, refused = cls(), []
        for field in fields(cls):
            if field.name in query:
                try:
                    settings = replace(settings, **{field.name: parse(field.name, query[field.name])})
                except ValueError as error:
                    refused.append(str(error))
        return settings, refused


def parse(name: str, text: str) -> Any:
    """Return the value of field `name` that `text` stands for.

    >>> parse("alpha", " 1/3 ")
    0.3333333333333333
    >>> parse("n", "1e9")
    Traceback (most recent call last):
    ...
    ValueError: N must lie between 3 and 50000; got 1000000000.
    """
    text = str(text).strip()
    if name == "potential":
        return _potential(text)
    if name in CHOICES:
        if text not in CHOICES[name]:
            raise unknown(name, text, CHOICES[name])
        return text
    symbol, low, high = LIMITS[name]
    top, _, bottom = text.partition("/")
    try:
        value = float(top) / float(bottom) if bottom else float(text)
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{symbol} must be a number; got {text!r}.") from None
    if not math.isfinite(value):
        raise ValueError(f"{symbol} must be a finite number; got {text!r}.")
    whole = isinstance(getattr(Settings, name), int)
    if whole and value != round(value):
        raise ValueError(f"{symbol} must be a whole number; got {text}.")
    if not low <= value <= high:
        raise ValueError(f"{symbol} must lie between {low:.10g} and {high:.10g}; got {value:.10g}.")
    return int(value) if whole else value


def refusal(settings: Settings, shape: tuple[int, int] | None = None) -> str:
    """Return why a run is refused, on random patterns or on patterns of `shape` (m, n); '' if it is not.

    >>> refusal(Settings(n=20000, alpha=0.5))
    'N = 20000 at α = 0.5 makes 2e+08 pattern entries and the page takes at most 1e+08: choose N ≤ 14142.'
    """
    m, n = shape or (constraints(settings.alpha, settings.n), settings.n)
    if m * n > MAX_ENTRIES:
        limit = math.isqrt(int(MAX_ENTRIES / settings.alpha))
        return (
            f"N = {n} at α = {settings.alpha:g} makes {m * n:.2g} pattern entries and the page takes at most "
            f"{MAX_ENTRIES:.2g}: choose N ≤ {limit}."
        )
    if settings.samples * m > MAX_STABILITIES:
        return f"{settings.samples} samples of {m} constraints are too many for a page: at most {MAX_STABILITIES // m}."
    lacking = registry.find(settings.sampler).lacks(n, settings.target)
    if lacking:
        return f"{lacking} Choose ASL."
    return ""


def _potential(text: str) -> str:
    potential = as_potential(BEGINNINGS.get(text, text))
    values = potential.parameters
    if None in values.values():
        words = [f"{name}={value:.10g}" for name, value in values.items() if value is not None]
    else:
        words = [f"{value:.10g}" for value in values.values()]
    return f"{potential.name}({', '.join(words)})" if words else potential.name


def offered() -> list[str]:
    """Return the names of the potentials that have initial parameters.

    >>> "log_band" in offered(), "wall" in offered(), "tau_wall" in offered()
    (True, True, False)
    """

    def complete(name: str) -> bool:
        try:
            return None not in as_potential(BEGINNINGS.get(name, name)).parameters.values()
        except (TypeError, ValueError):
            return False

    return [name for name in REGISTRY if complete(name)]


def with_parameters(potential: str, texts: list[str]) -> str:
    """Return the potential of the same name with parameters read from `texts`; empty ones are left out.

    >>> with_parameters("band(1)", ["0.8"]), with_parameters("wall(-1, 2)", ["", "1.5"])
    ('band(0.8)', 'wall(upper=1.5)')
    """
    known = as_potential(potential)
    words = [f"{name}={text}" for name, text in zip(known.parameters, texts) if text.strip()]
    return parse("potential", f"{known.name}({', '.join(words)})")


def program(settings: Settings, own_patterns: bool = False) -> str:
    """Return a Python program that repeats a run and saves its samples.

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
    measure = f"prior={s.prior!r}, potential={s.potential!r}, temperature={s.temperature!r}, margin={s.margin!r}"
    instance = f"n={s.n}, alpha={s.alpha!r}, target=target, patterns={s.patterns!r}, rng={s.seed}"
    annealing = f"n_chains={s.samples}, n_sweeps={s.sweeps}, schedule={s.sampler!r}, rng={s.seed + 1}"
    draw = (
        f"anneal(problem, {annealing})" if s.annealed else f"localize(problem, n_samples={s.samples}, rng={s.seed + 1})"
    )
    problem, reference = f"problem = ss.Perceptron.random({instance})", ", ss.predict(samples.target, problem.alpha)"
    if own_patterns:
        read = 'patterns = np.load("patterns.npy", allow_pickle=False)  # your own file'
        problem, reference = f"{read}\nproblem = ss.Perceptron(patterns, target=target)", ""
    lines = [
        "import numpy as np\nimport solspace as ss\n" if own_patterns else "import solspace as ss\n",
        f"target = ss.Target({measure})",
        problem,
        f"samples = ss.{draw}",
        f"print(ss.diagnose(samples{reference}))",
        'samples.save("samples.npz")\n',
    ]
    return "\n".join(lines)
