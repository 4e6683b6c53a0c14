"""Every public name, and every name that docs/api lists outside of "Inside", has a complete numpydoc docstring."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType

import pytest
from numpydoc.docscrape import ClassDoc
from numpydoc.validate import validate

import solspace as ss

CODES = {"GL08", "PR01", "PR02", "RT01", "RT03", "SS03"}
MODULES = [import_module("solspace.info"), import_module("solspace.learn")]
API = Path(__file__).parents[2] / "docs" / "api"


def roots() -> dict[str, object]:
    """Return the public functions and classes by their full name."""
    pages = [page.read_text("utf-8").partition("\n## Inside\n")[0] for page in API.glob("*.md")]
    listed = {name for page in pages for name in re.findall(r"^::: ([\w.]+)$", page, re.M)}
    found = {name: resolve_name(name) for name in listed} | {
        f"solspace.{name}": getattr(ss, name) for name in ss.__all__
    }
    for module in [*MODULES, *(value for value in found.values() if isinstance(value, ModuleType))]:
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
    codes, value = CODES, resolve_name(name)
    if dataclasses.is_dataclass(value) and not ClassDoc(value)["Parameters"]:  # a result, which users do not construct
        described = {word for entry in ClassDoc(value)["Attributes"] for word in entry.name.split(", ")}
        own = {field.name for field in dataclasses.fields(value)} & set(vars(value)["__annotations__"])
        assert own <= described
        codes = CODES - {"PR01"}
    assert not [error for error in validate(name)["errors"] if error[0] in codes]
