"""A sweep as a typed value: which problems, which samplers, how many instances.

Every entry that is a list is an axis of the grid, and the grid is the product of all axes. In Python::

    Spec(n=[501, 1001], alpha=[0.3, 0.4], target=Target(temperature=0.5), instances=50,
         sampler={"name": "tau", "n_sweeps": [100, "n"]})

and the same as a TOML file::

    n = [501, 1001]
    alpha = {start = 0.3, stop = 0.4, step = 0.1}
    instances = 50
    target = {prior = "binary", potential = "log", temperature = 0.5}

    [[sampler]]
    name = "tau"
    n_sweeps = [100, "n"]        # "n": as many sweeps as weights
"""

from __future__ import annotations

import itertools
import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from solspace.experiments.entries import axis, choices, listed, targets, unique
from solspace.experiments.sampling import KEEP
from solspace.experiments.tasks import Task, import_modules
from solspace.measure import Target
from solspace.problem import ENSEMBLES
from solspace.samplers.registry import find
from solspace.system.checks import number, one_of, sized, whole
from solspace.system.names import unknown
from solspace.system.plain import Values


@dataclass(frozen=True)
class Spec:
    """A grid of random problems and samplers.

    Parameters
    ----------
    n, alpha
        Number of weights and load: a value, a list, or a range `{"start", "stop", "step"}` or `{"start", "stop",
        "num"}`.
    target
        What is sampled: a `Target`, a table of its parts (each of which may be a list), or a list of these.
    margin, temperature
        Axes that replace the target's own margin and temperature.
    patterns
        `"binary"` or `"gaussian"`, or both.
    sampler
        A name, a table with `name` and the sampler's options (each of which may be a list), or a list of these.
    n_samples
        Samples (or chains) of each instance.
    instances
        Number of random problems at each point of the grid.
    seed
        Another seed gives other problems and other samples.
    keep
        Arrays to keep with each result, besides the numbers: any of `sampling.KEEP`.
    name
        A word for people.
    modules
        Your own modules to import where tasks run, for example the one that registers your potential.

    >>> spec = Spec(n=[9, 11], alpha={"start": 0.2, "stop": 0.4, "step": 0.1}, sampler="exact", instances=5)
    >>> len(spec), spec.alpha
    (30, (0.2, 0.3, 0.4))
    >>> Spec(n=9, alpa=0.3)
    Traceback (most recent call last):
    ...
    ValueError: unknown entry of the spec 'alpa': did you mean 'alpha'? Known: 'alpha', 'instances', 'keep', ...
    """

    n: Any
    alpha: Any
    target: Any = None
    sampler: Any = "asl"
    margin: Any = None
    temperature: Any = None
    patterns: Any = "binary"
    n_samples: int = 1
    instances: int = 1
    seed: int = 0
    keep: Any = ()
    name: str = "sweep"
    modules: Any = ()

    def __new__(cls, *args: object, **entries: object) -> Spec:
        for name in entries:
            if name not in cls.__dataclass_fields__:
                raise unknown("entry of the spec", name, cls.__dataclass_fields__)
        return super().__new__(cls)

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        put("n", axis("n", self.n, whole(1)))
        put("alpha", axis("alpha", self.alpha, number(positive=True)))
        put("margin", None if self.margin is None else axis("margin", self.margin, number()))
        if self.temperature is not None:
            put("temperature", axis("temperature", self.temperature, number(positive=True, infinite=True)))
        put("patterns", axis("patterns", self.patterns, one_of(ENSEMBLES)))
        for name, least in (("n_samples", 1), ("instances", 1), ("seed", 0)):
            put(name, whole(least)(name, getattr(self, name)))
        put("keep", tuple(one_of(KEEP, "array to keep")("keep", k) for k in listed(self.keep)))
        put("modules", tuple(map(str, listed(self.modules))))
        import_modules(self.modules)
        put("target", unique("target", targets(self.target)))
        put("sampler", unique("sampler", [choice for given in listed(self.sampler) for choice in choices(given)]))
        for point in self._grid():
            find(point["sampler"]).check(point["n"], Target.from_dict(point["target"]))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """Return the spec with these entries; names that are not known are refused with the closest one."""
        missing = [name for name in ("n", "alpha") if name not in values]
        if missing and set(values) <= set(cls.__dataclass_fields__):
            raise ValueError(f"the spec needs an entry {missing[0]!r}.")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Spec:
        """Return the spec that a TOML file states; its `name` is the file's unless the file gives one."""
        path = Path(path)
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
        except FileNotFoundError:
            raise ValueError(f"there is no spec at {path}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}.") from None
        except RecursionError:
            raise ValueError(f"{path} is no spec: its lists or tables are nested too deeply.") from None
        try:
            return cls.from_dict({"name": path.stem, **values})
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def with_options(self, **options: object) -> Spec:
        """Return the spec with options set for all samplers that have them: `with_options(device="gpu")`."""
        samplers = []
        for name, given in self.sampler:
            known = {key: value for key, value in options.items() if key in find(name).options}
            samplers.append({"name": name, **dict(given), **known})
        return replace(self, sampler=samplers)

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The axes of the grid by name, as they are printed."""
        axes = {"n": self.n, "alpha": self.alpha, "patterns": self.patterns, "target": tuple(map(str, self.target))}
        for name in ("margin", "temperature"):
            if getattr(self, name) is not None:
                axes[name] = getattr(self, name)
        axes["sampler"] = tuple(" ".join([name, *(f"{k}={v}" for k, v in given)]) for name, given in self.sampler)
        return axes

    def points(self) -> Iterator[Values]:
        """Yield the distinct points of the grid, as a task's values without the instance."""
        seen = set()
        for point in self._grid():
            key = Task({"kind": "sample", **point}).text
            if key not in seen:
                seen.add(key)
                yield point

    def _grid(self) -> Iterator[Values]:
        nothing = (None,)
        axes = (
            self.target,
            self.margin or nothing,
            self.temperature or nothing,
            self.patterns,
            self.sampler,
            self.n,
            self.alpha,
        )
        for target, margin, temperature, patterns, (sampler, given), n, alpha in itertools.product(*axes):
            changed = {"margin": margin, "temperature": temperature}
            target = target.replace(**{name: value for name, value in changed.items() if value is not None})
            yield {
                "kind": "sample", "n": n, "alpha": alpha, "patterns": patterns, "target": target.to_dict(),
                "sampler": sampler, "options": {name: sized(value, n) for name, value in given},
                "n_samples": self.n_samples, "seed": self.seed, "keep": list(self.keep),
                **({"modules": list(self.modules)} if self.modules else {}),
            }  # fmt: skip

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks: the first instance of every point, then the second; a stopped sweep covers the grid."""
        points = list(self.points())
        for instance in range(self.instances):
            for point in points:
                yield Task({**point, "instance": instance})

    def __len__(self) -> int:
        return sum(1 for _ in self.points()) * self.instances
