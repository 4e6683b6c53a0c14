"""What a user may ask of a sampler: one table for each, read by the sampler itself and by all who offer it to users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.measure.priors import Spherical
from solspace.problem import Perceptron
from solspace.samplers.device import DEVICES
from solspace.system.checks import Check, damping, number, one_of, optional, shown, whole
from solspace.system.plain import Values


@dataclass(frozen=True)
class Option:
    """One option: its default, its check, what it is for, and the names it takes where it takes names."""

    default: object
    check: Check
    help: str
    choices: tuple[str, ...] = ()


Options = Mapping[str, Option]


def named(default: str, choices: tuple[str, ...], help: str) -> Option:
    """Return an option that takes one of some names."""
    return Option(default, one_of(choices), help, choices)


def checked(options: Options, given: Mapping[str, object]) -> Values:
    """Return the values of `options` among the arguments `given`, each checked."""
    return {name: option.check(name, given.get(name, option.default)) for name, option in options.items()}


PRECISIONS = ("float32", "float64")
VARIANCES = ("auto", "scalar", "full")
DAMPING = Option("auto", damping, "share of the old state kept at every iteration, or auto: more where it is needed")
VARIANCE = named("auto", VARIANCES, "scalar, full (one for every constraint and weight), or auto: by the data")
DEVICE = named("cpu", DEVICES, "cpu, gpu, or auto: a device where there is one")


def positive_or_none(help: str, least: float | None = None, most: float | None = None) -> Option:
    """Return an option that takes a positive number, within bounds if these are given, None by default."""
    return Option(None, optional(number(positive=True, least=least, most=most)), help)


def problems_in(given: Any) -> list[Perceptron]:
    """Return a list of problems, or say that this is none."""
    found = list(given) if isinstance(given, Iterable) else [given]
    if not all(isinstance(one, Perceptron) for one in found):
        raise ValueError(f"problem must be a solspace Perceptron or a list of them; got {shown(given)}.")
    return found


def count(default: int | None, help: str, least: int = 1) -> Option:
    """Return an option that takes an integer of at least `least`; None too where that is the default."""
    return Option(default, optional(whole(least)) if default is None else whole(least), help)


def choose_variances(problem: Perceptron, variances: str) -> str:
    """Return "scalar" or "full": what is asked for, or for "auto" what the patterns need.

    Patterns of ±1 have x² = 1: both forms are the same and the scalar one is cheaper. On the sphere the same holds to order
    1/√n where the x² of all rows and columns differ by chance alone. For others full variances are taken, and for ±1
    weights: late in a run few are undecided, and what a constraint feels of them is a sum over just these few.
    """
    if variances != "auto":
        return variances
    even = problem.has_binary_patterns or (isinstance(problem.target.prior, Spherical) and _even_entries(problem))
    return "scalar" if even else "full"


def _even_entries(problem: Perceptron) -> bool:
    """Return whether sums of x² over rows and columns vary no more than those of independent entries of one law."""
    if problem.ensemble is not None:
        return True
    rows, columns, fourth = np.empty(problem.m), np.zeros(problem.n), 0.0
    for part, block in problem.blocks():
        square = block * block
        rows[part] = square.mean(axis=1)
        columns += square.sum(axis=0) / problem.m
        fourth += float(np.square(square).sum()) / (problem.m * problem.n)
    excess = fourth - rows.mean() ** 2  # the variance of x²
    chance = 2.0 * excess + 1e-9 * rows.mean() ** 2  # twice what is expected of independent entries, and rounding
    heavy = excess > 3.0 * rows.mean() ** 2
    return bool(not heavy and rows.var() * problem.n <= chance and columns.var() * problem.m <= chance)
