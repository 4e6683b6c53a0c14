"""Fields of the `Config` of samplers, and what several samplers choose alike."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from typing import Any

import numpy as np

from solspace.measure.priors import Spherical
from solspace.problem import Perceptron
from solspace.samplers.device import DEVICES
from solspace.system.checks import Check, damping, number, one_of, optional, shown, whole


def option(default: object, check: Check, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Return a field of a `Config`."""
    return field(default=default, metadata={"check": check, "help": help, "choices": choices})


def choice(default: str, choices: tuple[str, ...], help: str) -> Any:
    """Return a field that takes one of some names."""
    return option(default, one_of(choices), help, choices)


def positive_or_none(help: str, least: float | None = None, most: float | None = None) -> Any:
    """Return a field that takes a positive number within bounds, None by default."""
    return option(None, optional(number(positive=True, least=least, most=most)), help)


def count(default: int | None, help: str, least: int = 1) -> Any:
    """Return a field that takes an integer of at least `least`; None too where that is the default."""
    return option(default, optional(whole(least)) if default is None else whole(least), help)


PRECISIONS = ("float32", "float64")
VARIANCES = ("auto", "scalar", "full")


def damping_option() -> Any:
    return option("auto", damping, "share of the old state kept at every iteration, or auto: more where it is needed")


def variances_option() -> Any:
    return choice("auto", VARIANCES, "scalar, full (one for every constraint and weight), or auto: by the data")


def device_option() -> Any:
    return choice("cpu", DEVICES, "cpu, gpu, or auto: a GPU if there is one")


def problem_list(problem: Any) -> list[Perceptron]:
    """Return a list of problems from one or several."""
    found = list(problem) if isinstance(problem, Iterable) else [problem]
    if not all(isinstance(one, Perceptron) for one in found):
        raise ValueError(f"problem must be a solspace Perceptron or a list of them; got {shown(problem)}.")
    return found


def choose_variances(problem: Perceptron, variances: str) -> str:
    """Return "scalar" or "full": `variances`, or for "auto" what the patterns need.

    Patterns of ±1 have x² = 1: both forms are the same and the scalar one is cheaper. On the sphere the same holds to order
    1/√n where the x² of all rows and columns differ by chance alone. Otherwise, and for ±1 weights, full variances are
    taken: late in a run few weights are undecided, and a constraint depends on a sum over these few alone.
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
    mean = rows.mean()
    excess = fourth - mean**2  # the variance of x²
    chance = 2.0 * excess + 1e-9 * mean**2  # twice what is expected of independent entries, and rounding
    return bool(excess <= 3.0 * mean**2 and rows.var() * problem.n <= chance and columns.var() * problem.m <= chance)
