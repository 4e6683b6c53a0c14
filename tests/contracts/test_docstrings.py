"""Every public name has a complete numpydoc docstring."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

import pytest
from numpydoc.validate import validate

import solspace as ss

CODES = {"GL08", "PR01", "PR02", "RT01", "RT03", "SS03"}
NAMES = ("enumeration", "info", "learn", "plots.style")
MODULES = [ss.priors, ss.potentials, ss.plots, ss.data, *(import_module(f"solspace.{name}") for name in NAMES)]


def roots() -> dict[str, object]:
    """Return the public functions and classes by their full name."""
    found = {f"solspace.{name}": getattr(ss, name) for name in ss.__all__}
    for module in MODULES:
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in getattr(module, "__all__", ())}
    return {name: value for name, value in found.items() if not isinstance(value, (str, ModuleType, dict))}


def documented() -> Iterator[str]:
    """Yield public functions, classes, and the public methods and properties that a class of ours defines."""
    for name, value in roots().items():
        yield name
        if inspect.isclass(value):
            fields = {field.name for field in dataclasses.fields(value)} if dataclasses.is_dataclass(value) else set()
            for member, own in inspect.getmembers(value):
                if member.startswith("_") or member in fields:
                    continue
                function = getattr(own, "fget", own)
                inherited = not function.__doc__ and inspect.getdoc(own)  # checked on the base class
                ours = (getattr(function, "__module__", "") or "").startswith("solspace")
                if ours and not inherited and (callable(own) or isinstance(own, property)):
                    yield f"{name}.{member}"


@pytest.mark.parametrize("name", sorted(documented()))
def test_complete(name: str) -> None:
    errors = [error for error in validate(name)["errors"] if error[0] in CODES]
    assert not errors
