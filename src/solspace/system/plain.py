"""Values by name, and as JSON can say them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = dict[str, Any]
"""Values of any kind by name: a line of a table, a part of a report, the options of a call. Who reads one knows its kind."""


def plain(value: object) -> Any:
    """Return `value` with NumPy's types made Python's, and numbers that are not finite, which JSON cannot say, made None.

    >>> plain({"r": np.float32(0.5), "path": np.array([1.0, np.nan]), "by": ("dat", np.bool_(True))})
    {'r': 0.5, 'path': [1.0, None], 'by': ['dat', True]}
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
