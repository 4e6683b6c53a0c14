"""What a spec's entries may be: lists, ranges, numbers, targets and samplers, each checked once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import Field
from typing import Any

from solspace.measure import Target, potentials
from solspace.samplers.registry import find
from solspace.system.checks import Check, number, sized, whole
from solspace.system.names import unknown


def listed(given: Any) -> list[Any]:
    """Return `given` as a list; what is not a list is a list of one."""
    return list(given) if isinstance(given, (list, tuple, set, range)) or hasattr(given, "tolist") else [given]


def unique(name: str, given: Any) -> tuple[Any, ...]:
    """Return the values as a tuple, none of them missing or twice."""
    values = tuple(given)
    if not values:
        raise ValueError(f"{name} is an empty list: give at least one value.")
    twice = [value for i, value in enumerate(values) if value in values[:i]]
    if twice:
        raise ValueError(f"{name} contains {twice[0]!r} twice.")
    return values


def axis(name: str, given: object, check: Check) -> tuple[Any, ...]:
    """Return the checked values of an axis: one value, a list, or a range.

    >>> axis("alpha", {"start": 0.1, "stop": 0.3, "num": 3}, number())
    (0.1, 0.2, 0.3)
    """
    if isinstance(given, Mapping):
        given = _range(name, given)
    return unique(name, [check(name, value) for value in listed(given)])


def _range(name: str, given: Mapping[str, object]) -> list[float]:
    for key in given:
        if key not in ("start", "stop", "step", "num"):
            raise unknown(f"entry of the range {name}", key, ("start", "stop", "step", "num"))
    if not {"start", "stop"} <= set(given) or ("step" in given) == ("num" in given):
        raise ValueError(f"{name}: a range needs start, stop and either step or num; got {dict(given)}.")
    check = number()
    start, stop = check(name, given["start"]), check(name, given["stop"])
    if "num" in given:
        steps = whole(2)(f"{name}.num", given["num"]) - 1
        step = (stop - start) / steps
    else:
        step = check(f"{name}.step", given["step"])
        if step == 0 or (stop - start) / step < 0:
            raise ValueError(f"{name}: step {step:g} does not lead from {start:g} to {stop:g}.")
        steps = math.floor((stop - start) / step + 1e-9)
    values = [round(start + i * step, 12) for i in range(steps + 1)]
    return [int(v) if isinstance(given["start"], int) and v == int(v) else v for v in values]


def targets(given: object) -> Iterator[Target]:
    """Yield the targets that a `Target`, a table of its parts or a list of these stand for."""
    for one in [Target()] if given is None else listed(given):
        if isinstance(one, Mapping):
            for name in one:
                if name not in Target.__slots__:
                    raise unknown("part of the target", name, Target.__slots__)
            for values in itertools.product(*(listed(value) for value in one.values())):
                yield _registered(Target(**dict(zip(one, values))))
        elif isinstance(one, Target):
            yield _registered(one)
        else:
            raise ValueError(f"target must be a Target or a table of its parts; got {one!r}.")


def _registered(target: Target) -> Target:
    if target.potential.name not in potentials.REGISTRY:
        raise ValueError(
            f"the potential {target.potential.name!r} is not registered: put its class into a module of your own with "
            "@solspace.potentials.register and name that module in `modules`."
        )
    return target


def choices(given: object) -> Iterator[tuple[str, tuple[tuple[str, Any], ...]]]:
    """Yield (name, options) for each combination of the options that a sampler's name or table lists."""
    table = {"name": given} if isinstance(given, str) else given
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ValueError(f"sampler must be a name or a table with a name; got {given!r}.")
    name = table["name"]
    allowed = find(name).options
    options = {key: value for key, value in table.items() if key != "name"}
    for key in options:
        if key not in allowed:
            raise unknown(f"option of sampler {name!r}", key, allowed)
    checked = [[_checked(allowed[key], key, value) for value in listed(values)] for key, values in options.items()]
    for values in itertools.product(*checked):
        yield name, tuple(zip(options, values))


def _checked(option: Field[Any], key: str, value: object) -> Any:
    """Return an option's value; `"n"`, `"2n"`, ... stand for multiples of the number of weights where it is a number."""
    if isinstance(value, str) and sized(value, 1) != value:
        option.metadata["check"](key, sized(value, 1))
        return value.lower()
    return option.metadata["check"](key, value)
