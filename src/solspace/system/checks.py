"""Checks of single values: each returns the value in its proper type, or raises ValueError with what is allowed.

A check is a function (name, value) -> value, for options of samplers, entries of a spec and fields of the page. The options of
a sampler are the fields of a `Config`.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

Check = Callable[[str, Any], Any]  # (name of the entry, value) -> the value in its proper type, or `ValueError`


def unknown(kind: str, name: object, allowed: Iterable[str]) -> ValueError:
    """Return the `ValueError` for a `name` that is not among the `allowed` ones, with the one that was probably meant.

    >>> print(unknown("potential", "lgo", ["log", "uniform"]))
    unknown potential 'lgo': did you mean 'log'? Known: 'log', 'uniform'.
    """
    names = sorted(allowed)
    close = get_close_matches(str(name).lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"unknown {kind} {name!r}: {hint}Known: {', '.join(map(repr, names))}.")


def install(extra: str) -> str:
    """Return the command that installs the optional dependencies `extra`, from an index and in a clone."""
    return f"pip install 'solspace[{extra}]' (in a clone: pip install -e '.[{extra}]')"


def shown(value: object) -> str:
    """Return a value as a message shows it: on one line and not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) < 80 else f"{text[:60]}... ({type(value).__name__})"


def _require(valid: object, name: str, wanted: str, value: object) -> None:
    if not valid:
        raise ValueError(f"{name} must be {wanted}; got {shown(value)}.")


def whole(least: int, most: float = math.inf) -> Check:
    wanted = f"an integer of at least {least}" + (f" and at most {most}" if most < math.inf else "")

    def check(name: str, value: Any) -> int:
        value = value.item() if hasattr(value, "item") else value
        valid = isinstance(value, numbers.Integral) and not isinstance(value, bool) and least <= int(value) <= most
        _require(valid, name, wanted, value)
        return int(value)

    return check


def number(positive: bool = False, infinite: bool = False, least: float = -math.inf, most: float = math.inf) -> Check:
    """Return a check for numbers, finite ones unless they may be `infinite`, and from `least` to `most`."""

    def check(name: str, value: Any) -> float:
        value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
        try:
            real = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
        except OverflowError:  # an integer too large for a float
            real = math.inf if value > 0 else -math.inf
        valid = not math.isnan(real) and (real > 0 or not positive) and (infinite or not math.isinf(real))
        _require(valid, name, "a positive number" if positive else "a number", value)
        _require(real >= least, name, f"at least {least:g}", value)
        _require(real <= most, name, f"at most {most:g}", value)
        return real

    return check


def reals(name: str, value: Any) -> NDArray[np.float64]:
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufO" or np.ma.is_masked(value):
            raise TypeError
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of real numbers; got {shown(value)}.") from None


def instance(kind: type) -> Check:
    def check(name: str, value: object) -> Any:
        _require(isinstance(value, kind), name, f"a solspace {kind.__name__}", value)
        return value

    return check


def flag(name: str, value: object) -> bool:
    _require(isinstance(value, (bool, np.bool_)), name, "True or False", value)
    return bool(value)


def one_of(allowed: Iterable[str]) -> Check:
    names = tuple(allowed)

    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in names:
            raise unknown(name, value, names)
        return value

    return check


def optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def or_auto(check: Check) -> Check:
    """Return a check that lets "auto" pass."""
    return lambda name, value: value if isinstance(value, str) and value == "auto" else check(name, value)


def sized(value: object, n: int) -> Any:
    """Return an option's value; `"n"` and `"2n"` stand for multiples of the number of weights.

    >>> sized("2n", 101), sized(100, 101)
    (202, 100)
    """
    if isinstance(value, str) and value[-1:] in "nN" and value[:-1].isdigit() | (value[:-1] == ""):
        return n * int(value[:-1] or 1)
    return value


@dataclass(frozen=True, kw_only=True)
class Config:
    """Options, in fields whose `metadata` holds `check`, `help` and `choices`; each is checked when the object is built."""

    def __post_init__(self) -> None:
        for option in fields(self):
            value = option.metadata["check"](option.name, getattr(self, option.name))
            object.__setattr__(self, option.name, value)


def option(default: object, check: Check, help: str, choices: tuple[str, ...] = ()) -> Any:
    return field(default=default, metadata={"check": check, "help": help, "choices": choices})


def choice(default: str, choices: tuple[str, ...], help: str) -> Any:
    return option(default, one_of(choices), help, choices)


def positive_or_none(help: str, least: float = 0.0, most: float = math.inf) -> Any:
    return option(None, optional(number(positive=True, least=least, most=most)), help)


def count(default: int | None, help: str, least: int = 1) -> Any:
    """Return a field that takes an integer of at least `least`; None too where that is the default."""
    return option(default, optional(whole(least)) if default is None else whole(least), help)


def damping_option() -> Any:
    def check(name: str, value: Any) -> float:
        valid = isinstance(value, numbers.Real) and 0 <= value < 1  # type: ignore[operator]
        _require(valid, name, '"auto" or a number from 0 to below 1', value)
        return float(value)

    help = "share of the old state kept at every iteration, or auto: more where it is needed"
    return option("auto", or_auto(check), help)


def check_call(single: bool, rng: object, checkpoint: object, callback: object) -> None:
    """Raise ValueError where a call for a `single` problem, or for a list, has what belongs to the other."""
    if single and isinstance(rng, Sequence):
        raise ValueError("rng must be one seed for one problem; got a list.")
    if single and checkpoint is not None and rng is None:
        raise ValueError("checkpoint needs a seed, by which the run is continued: give rng.")
    if not single and not (checkpoint is None and callback is None):
        raise ValueError("checkpoint and callback go with one problem, not with a list of them.")
