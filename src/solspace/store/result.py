"""A result: what a task gave, and where, when and by what it was made."""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from solspace.numerics.arrays import Array
from solspace.system.plain import Values


@dataclass
class Result:
    """One task's outcome: numbers, arrays, or the error that ended it; and where, when and by what it was made."""

    key: str
    task: Values
    status: str = "done"
    values: Values = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    error: str = ""
    version: str = ""
    seed: str = ""
    host: str = ""
    seconds: float = 0.0
    date: str = ""

    def flat(self) -> Values:
        """Return task, numbers and provenance as one level of names, for tables.

        >>> result = Result("k", {"n": 9, "options": {"n_sweeps": 3}}, values={"solved": 1})
        >>> result.flat()["n_sweeps"], result.flat()["solved"]
        (3, 1)
        """
        row: Values = {"key": self.key, "status": self.status}
        for name, value in self.task.items():
            inner = value if name in ("target", "options") and isinstance(value, dict) else {name: value}
            row.update({k: _short(v) for k, v in inner.items()})
        row.update(self.values)
        for name in ("error", "version", "seed", "host", "seconds", "date"):
            row[name if name not in row else f"result_{name}"] = getattr(self, name)
        return row


def _short(value: object) -> object:
    if isinstance(value, dict) and "name" in value:
        given = ", ".join(f"{v:g}" for k, v in value.items() if k != "name")
        return f"{value['name']}({given})" if given else value["name"]
    return json.dumps(value) if isinstance(value, (dict, list)) else value
