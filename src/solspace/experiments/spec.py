"""A sweep as a typed value: which problems, which samplers, how many instances.

Every entry that is a list is an axis of the grid, and the grid is the product of all axes. As a TOML file::

    n = [501, 1001]
    alpha = {start = 0.3, stop = 0.4, step = 0.1}
    instances = 50
    sampler = {name = "tau", n_sweeps = [100, "n"]}        # "n": as many sweeps as weights
"""

from __future__ import annotations

import itertools
import math
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, replace
from pathlib import Path
from typing import Any

from solspace.experiments.tasks import KEEP, Task, import_modules, instances_of
from solspace.measure import Target, potentials
from solspace.problem import ENSEMBLES
from solspace.samplers.registry import find
from solspace.system.checks import Check, number, one_of, sized, whole
from solspace.system.plain import Values

_AXES = {
    "n": whole(1),
    "alpha": number(positive=True),
    "margin": number(),
    "temperature": number(positive=True, infinite=True),
    "patterns": one_of(ENSEMBLES),
}


@dataclass(frozen=True)
class Spec:
    """A grid of random problems and samplers.

    Each entry is one value or a list of them; the grid is the product of all lists.

    Parameters
    ----------
    n : int, list of int, or range
        Number of weights. A range is `{"start", "stop", "step"}` or `{"start", "stop", "num"}`.
    alpha : float, list of float, or range
        Load, constraints per weight.
    target : Target, mapping, or list of these
        Measure over the weights; a mapping has the target's parameters, each of which may be a list. By default `Target()`.
    sampler : str, mapping, or list of these
        Name of a sampler, or a mapping with `name` and the sampler's options, each of which may be a list. `"n"` and
        `"2n"` stand for multiples of the number of weights.
    margin, temperature : float, list of float, or range, optional
        Axes that replace the target's own margin and temperature.
    patterns : {"binary", "gaussian"} or list of these
        Ensemble of the patterns.
    n_samples : int
        Samples (or chains) of each instance.
    instances : int
        Random problems at each point of the grid.
    seed : int
        Seed of problems and samples.
    keep : list of str
        Arrays to store with each result: any of "weights", "stabilities", "overlaps", "violations", "solved" and "path".
    name : str
        Label of the sweep.
    modules : list of str
        Modules to import where tasks run, for example the one that registers a potential.

    Raises
    ------
    ValueError
        If an entry is out of range, or if a sampler does not support a target.

    Examples
    --------
    >>> spec = Spec(n=[9, 11], alpha={"start": 0.2, "stop": 0.4, "step": 0.1}, sampler="exact", instances=5)
    >>> len(spec), spec.alpha
    (30, (0.2, 0.3, 0.4))
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

    def __post_init__(self) -> None:
        put = lambda name, value: object.__setattr__(self, name, value)  # noqa: E731
        for name, check in _AXES.items():
            if name not in ("margin", "temperature") or getattr(self, name) is not None:
                put(name, _axis(name, getattr(self, name), check))
        for name, least in (("n_samples", 1), ("instances", 1), ("seed", 0)):
            put(name, whole(least)(name, getattr(self, name)))
        put("keep", tuple(one_of(KEEP)("array to keep", k) for k in _listed(self.keep)))
        put("modules", tuple(map(str, _listed(self.modules))))
        import_modules(self.modules)
        put("target", _unique("target", _targets(self.target)))
        put("sampler", _unique("sampler", [choice for entry in _listed(self.sampler) for choice in _samplers(entry)]))
        for point in self._grid():
            find(point["sampler"]).check(point["n"], Target.from_dict(point["target"]))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Spec:
        """Return the spec with these entries.

        Parameters
        ----------
        values : mapping
            The parameters of `Spec` by name.

        Returns
        -------
        Spec
            The spec.

        Raises
        ------
        ValueError
            If an entry is unknown, missing or out of range.

        Examples
        --------
        >>> len(Spec.from_dict({"n": 9, "alpha": [0.3, 0.4], "sampler": "exact"}))
        2
        >>> Spec.from_dict({"n": 9, "alpa": 0.3})
        Traceback (most recent call last):
        ...
        ValueError: unknown entry of the spec 'alpa': did you mean 'alpha'? Known: 'alpha', 'instances', 'keep', ...
        """
        _check_names("entry of the spec", values, cls.__dataclass_fields__)
        for name in ("n", "alpha"):
            if name not in values:
                raise ValueError(f"the spec needs an entry {name!r}.")
        return cls(**values)

    @classmethod
    def from_toml(cls, path: str | os.PathLike[str]) -> Spec:
        """Return the spec in a TOML file.

        Parameters
        ----------
        path : path
            The file; its stem is the spec's name unless an entry sets it.

        Returns
        -------
        Spec
            The spec.

        Raises
        ------
        ValueError
            If the file does not exist or is not TOML, or an entry is unknown, missing or out of range.
        """
        path = Path(path)
        try:
            return cls.from_dict({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8-sig"))})
        except FileNotFoundError:
            raise ValueError(f"there is no spec at {path}.") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path} is not TOML: {error}.") from None
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    def with_options(self, **options: object) -> Spec:
        """Return the spec with options set for all samplers that have them.

        Parameters
        ----------
        **options : object
            Options of samplers.

        Returns
        -------
        Spec
            The spec with these options.

        Examples
        --------
        >>> Spec(n=9, alpha=0.3).with_options(device="cpu").sampler
        (('asl', (('device', 'cpu'),)),)
        """
        samplers = []
        for name, own in self.sampler:
            known = {key: value for key, value in options.items() if key in find(name).options}
            samplers.append({"name": name, **dict(own), **known})
        return replace(self, sampler=samplers)

    @property
    def axes(self) -> dict[str, tuple[Any, ...]]:
        """The axes of the grid by name, with targets and samplers as text."""
        axes = {"n": self.n, "alpha": self.alpha, "patterns": self.patterns, "target": tuple(map(str, self.target))}
        axes |= {name: own for name in ("margin", "temperature") if (own := getattr(self, name)) is not None}
        return axes | {"sampler": tuple(" ".join([name, *(f"{k}={v}" for k, v in own)]) for name, own in self.sampler)}

    def points(self) -> Iterator[Values]:
        """Yield the distinct points of the grid: the values of a task without `instance`.

        Examples
        --------
        >>> [point["n"] for point in Spec(n=[9, 11], alpha=0.3).points()]
        [9, 11]
        """
        points: dict[str, Values] = {}
        for point in self._grid():
            points.setdefault(Task(point).text, point)
        yield from points.values()

    def _grid(self) -> Iterator[Values]:
        margins, temperatures = self.margin or (None,), self.temperature or (None,)
        axes = self.target, margins, temperatures, self.patterns, self.sampler, self.n, self.alpha
        for target, margin, temperature, patterns, (sampler, options), n, alpha in itertools.product(*axes):
            target = target if margin is None else target.replace(margin=margin)
            target = target if temperature is None else target.replace(temperature=temperature)
            yield {
                "kind": "sample", "n": n, "alpha": alpha, "patterns": patterns, "target": target.to_dict(),
                "sampler": sampler, "options": {name: sized(value, n) for name, value in options},
                "n_samples": self.n_samples, "seed": self.seed, "keep": list(self.keep),
                **({"modules": list(self.modules)} if self.modules else {}),
            }  # fmt: skip

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks: the first instance of every point, then the second, so that a stopped sweep covers the grid.

        Examples
        --------
        >>> [task.values["instance"] for task in Spec(n=9, alpha=[0.3, 0.4], instances=2).tasks()]
        [0, 0, 1, 1]
        """
        yield from instances_of(self.points(), self.instances)

    def __len__(self) -> int:
        return sum(1 for _ in self.points()) * self.instances


def _check_names(kind: str, names: Iterable[str], allowed: Iterable[str]) -> None:
    for name in names:
        one_of(allowed)(kind, name)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple, set, range)) or hasattr(value, "tolist") else [value]


def _unique(name: str, entries: Any) -> tuple[Any, ...]:
    values = tuple(entries)
    if not values:
        raise ValueError(f"{name} is an empty list: give at least one value.")
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{name} contains {twice[0]!r} twice.")
    return values


def _axis(name: str, entry: object, check: Check) -> tuple[Any, ...]:
    """Return the checked values of an axis: one value, a list, or a range.

    >>> _axis("alpha", {"start": 0.1, "stop": 0.3, "num": 3}, number())
    (0.1, 0.2, 0.3)
    """
    values = _range(name, entry) if isinstance(entry, Mapping) else _listed(entry)
    return _unique(name, [check(name, value) for value in values])


def _range(name: str, entry: Mapping[str, object]) -> list[float]:
    _check_names(f"entry of the range {name}", entry, ("start", "stop", "step", "num"))
    if not {"start", "stop"} <= set(entry) or ("step" in entry) == ("num" in entry):
        raise ValueError(f"{name}: a range needs start, stop and either step or num; got {dict(entry)}.")
    start, stop = (number()(name, entry[end]) for end in ("start", "stop"))
    if "num" in entry:
        steps = whole(2)(f"{name}.num", entry["num"]) - 1
        step = (stop - start) / steps
    else:
        step = number()(f"{name}.step", entry["step"])
        if step == 0 or (stop - start) / step < 0:
            raise ValueError(f"{name}: step {step:g} does not lead from {start:g} to {stop:g}.")
        steps = math.floor((stop - start) / step + 1e-9)
    values = [round(start + i * step, 12) for i in range(steps + 1)]
    return [int(v) if isinstance(entry["start"], int) and v == int(v) else v for v in values]


def _combinations(table: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for values in itertools.product(*map(_listed, table.values())):
        yield dict(zip(table, values))


def _targets(entry: object) -> Iterator[Target]:
    for one in [Target()] if entry is None else _listed(entry):
        table = {name: getattr(one, name) for name in Target.__dataclass_fields__} if isinstance(one, Target) else one
        if not isinstance(table, Mapping):
            raise ValueError(f"target must be a Target or a table of its parts; got {one!r}.")
        _check_names("part of the target", table, Target.__dataclass_fields__)
        for values in _combinations(table):
            target = Target(**values)
            if target.potential.name not in potentials.REGISTRY:
                raise ValueError(
                    f"the potential {target.potential.name!r} is not registered: put its class into a module of your own "
                    "with @solspace.potentials.register and name that module in `modules`."
                )
            yield target


def _samplers(entry: object) -> Iterator[tuple[str, tuple[tuple[str, Any], ...]]]:
    """Yield (name, options) for each combination of the options of a sampler's name or table."""
    table = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"sampler must be a name or a table with a name; got {entry!r}.")
    name, options = table["name"], {key: value for key, value in table.items() if key != "name"}
    known = find(name).options
    _check_names(f"option of sampler {name!r}", options, known)
    for one in _combinations(options):
        yield name, tuple((key, _checked(known[key], key, value)) for key, value in one.items())


def _checked(option: Field[Any], key: str, value: object) -> Any:
    checked = option.metadata["check"](key, sized(value, 1))
    return value.lower() if isinstance(value, str) and sized(value, 1) != value else checked  # "n", "2n", ...
