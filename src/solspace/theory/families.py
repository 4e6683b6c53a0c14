"""Families of potentials: which parameters a design may choose, where it starts and what it may reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np

from solspace.measure import potentials
from solspace.system.names import unknown

KNOWN: dict[str, dict[str, tuple[float, float, float]]] = {
    "log": {"temperature": (0.6, 0.1, 0.999)},
    "log_band": {"temperature": (0.85, 0.1, 0.999), "quadratic": (-0.3, -4.0, 8.0)},
    "wall": {"temperature": (0.6, 0.1, 0.999)},
    "log_quadratic": {"temperature": (0.85, 0.3, 0.999), "linear": (1.0, -4.0, 8.0), "quadratic": (0.8, 0.0, 8.0)},
}
"""Parameters of the families that are known: start, lowest and highest value."""


def family_space(
    family: object, initial: Mapping[str, float] | None, bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[Callable[..., Any], dict[str, tuple[float, float, float]]]:
    """Return what makes the potentials that `family` stands for, and (start, lowest, highest) of each parameter.

    A potential, or its text with parameters ("log_band(0.8)"), is a family in which those of its parameters stay as they are
    that the family does not choose.
    """
    if isinstance(family, str) and "(" in family:
        family = potentials.as_potential(family)
    if isinstance(family, potentials.Potential) and family.name in KNOWN:
        chosen = KNOWN[family.name]
        kept = {name: value for name, value in family.parameters.items() if name not in chosen}
        return partial(type(family), **kept), family_space(type(family), initial, bounds)[1]
    if isinstance(family, str):
        if family not in potentials.REGISTRY:
            raise unknown("family", family, KNOWN)
        family = potentials.REGISTRY[family]
    if not isinstance(family, type):
        raise ValueError(
            f"family must be a name, a class of potentials, or one of {', '.join(KNOWN)} with its parameters; "
            f"got {family!r}."
        )
    name = getattr(family, "name", "") or family.__name__
    space = dict(KNOWN.get(name, {})) if family in potentials.REGISTRY.values() else {}
    given = dict(_defaults(family) | dict(getattr(family, "initial", {}) or {})) if not space else {}
    limits = dict(getattr(family, "bounds", {}) or {}) | dict(bounds or {})
    for key, value in (given | dict(initial or {})).items():
        low, high = space[key][1:] if key in space else (-np.inf, np.inf)
        space[key] = (float(value), low, high)
    for key, (low, high) in limits.items():
        if key not in space:
            raise unknown("parameter", key, space)
        space[key] = (float(np.clip(space[key][0], low, high)), float(low), float(high))
    if not space:
        raise ValueError(f"{name} has no parameters to choose: give `initial` values by name.")
    if len(space) == 1 and not all(np.isfinite(value[1:]).all() for value in space.values()):
        raise ValueError(
            f"a family with one parameter needs finite bounds for it: give `bounds` for {next(iter(space))!r}."
        )
    return family, space


def _defaults(family: type) -> dict[str, float]:
    if not is_dataclass(family):
        return {}
    return {f.name: float(f.default) for f in fields(family) if f.default is not MISSING}
