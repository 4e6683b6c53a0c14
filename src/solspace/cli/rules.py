"""Options that cannot apply are refused, never ignored: each verb has a table of rules for what its options need.

A rule looks at the values of all options and at which of them the user wrote, and says in words what an option needs.
A default that does not matter breaks no rule; a value that the user wrote and that would change nothing does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import typer

LARGEST = 1 << 31
"""No number of anything reaches this; only a seed may."""


class Given:
    """The options of a command: their values as attributes, and which of them the user wrote.

    `subcommand` is the command of a group that follows, None where there is none.

    >>> given = Given({"sampler": "tau", "sweeps": None}, {"sampler"})
    >>> given.sampler, "sampler" in given, "sweeps" in given
    ('tau', True, False)
    """

    def __init__(self, values: Mapping[str, object], written: set[str]) -> None:
        self._values, self._written = values, written

    def __getattr__(self, name: str) -> Any:
        return self._values[name]

    def __contains__(self, name: str) -> bool:
        return name in self._written


@dataclass(frozen=True)
class Rule:
    """The `options` (names separated by spaces) apply where `where` is true of what is given; `words` say so.

    `words` follow the option's name and end the sentence: "belongs to --sampler asl".
    """

    options: str
    where: Callable[[Given], bool]
    words: str


TEMPERATURE = Rule(
    "temperature",
    lambda given: not given.potential.startswith(("uniform", "band")),
    "has no effect on a potential that has no energy (uniform, band)",
)
"""For every verb that states a target."""


def check(context: typer.Context, values: Mapping[str, object], rules: tuple[Rule, ...]) -> None:
    """Raise the sentence of the first rule that what the user wrote does not keep."""
    spelled = {str(p.name): p.opts[0] if p.opts[0].startswith("-") else str(p.metavar) for p in context.command.params}
    written = {name for name in spelled if _is_written(context, name)}
    for name in written & set(values):
        value = values[name]
        if isinstance(value, int) and not -LARGEST < value < LARGEST and name != "seed":
            raise ValueError(
                f"{spelled[name]} must be smaller than 2^31; got a number of {len(str(abs(value)))} digits."
            )
    given = Given({**values, "subcommand": context.invoked_subcommand}, written)
    for rule in rules:
        for name in rule.options.split():
            if name in written and not rule.where(given):
                raise ValueError(f"{spelled[name]} {rule.words}.")


def _is_written(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and not source.name.startswith("DEFAULT")
