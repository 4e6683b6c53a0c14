"""Damaged stores: bits flip, bytes are overwritten, pages vanish or change places, files are cut short.

Whatever happens to the file, it is refused with a sentence, or what is read is what was written; and the same sweep
again ends with the rows of an undamaged one, or with a sentence. Nothing else is raised, and no result changes unseen.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import solspace as ss
from solspace.store import Result, Store, StoreError

pytestmark = pytest.mark.slow

SPEC = ss.Spec(n=[5, 7], alpha=[0.3, 1.5], sampler="exact", instances=12, n_samples=3, keep=["weights", "stabilities"])
"""48 tasks of a millisecond; some fail, since they have no solution."""
PAGE = 4096


def flip(data: bytearray, rng: np.random.Generator) -> None:
    data[rng.integers(len(data))] ^= 1 << rng.integers(8)


def overwrite(data: bytearray, rng: np.random.Generator) -> None:
    start = rng.integers(len(data))
    stop = min(len(data), start + rng.integers(1, 200))
    data[start:stop] = rng.bytes(stop - start)


def zero_page(data: bytearray, rng: np.random.Generator) -> None:
    start = PAGE * rng.integers(len(data) // PAGE)
    data[start : start + PAGE] = bytes(PAGE)


def swap_pages(data: bytearray, rng: np.random.Generator) -> None:
    first, second = PAGE * rng.integers(1, len(data) // PAGE, size=2)
    one, other = data[first : first + PAGE], data[second : second + PAGE]
    data[first : first + PAGE], data[second : second + PAGE] = other, one


def cut(data: bytearray, rng: np.random.Generator) -> None:
    del data[rng.integers(1, len(data)) :]


MUTATIONS = {"bit": flip, "bytes": overwrite, "zeros": zero_page, "swap": swap_pages, "cut": cut}


def facts(row: Result) -> Any:
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in row.arrays.items()}
    return row.status, row.task, row.values, arrays, row.error, row.seed, row.version


def whole(path: Path) -> dict[str, Any]:
    """Return all rows by key, read twice: by their keys and as they lie."""
    with Store(path) as store:
        by_key = {row.key: facts(row) for row in store.get((task.key for task in SPEC.tasks()), arrays=True)}
        lying = {row.key: facts(row) for row in store.rows(arrays=True)}
        assert by_key == lying
        assert sum(store.count().values()) == len(lying)
    return by_key


@pytest.fixture(scope="module")
def intact(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, dict[str, Any]]:
    path = tmp_path_factory.mktemp("intact") / "runs.db"
    ss.sweep(SPEC, path, executor="serial")
    rows = whole(path)
    assert len(rows) == len(SPEC)
    return path.read_bytes(), rows


@pytest.mark.parametrize("kind", MUTATIONS)
def test_no_result_changes_unseen(
    kind: str,
    intact: tuple[bytes, dict[str, Any]],
    tmp_path: Path,
    budget: Callable[[int, int], int],
    tally: Counter[str],
) -> None:
    content, rows = intact
    path = tmp_path / "runs.db"
    for number in range(budget(40, 2000) if kind == "bit" else budget(15, 500)):
        data = bytearray(content)
        MUTATIONS[kind](data, np.random.default_rng(number))
        for leftover in tmp_path.glob("runs.db*"):
            leftover.unlink()
        path.write_bytes(data)
        tally[f"{_read(path, rows, number)} and {_swept(path, rows, number)}"] += 1


def _read(path: Path, rows: dict[str, Any], number: int) -> str:
    try:
        found = whole(path)
    except StoreError as error:
        assert path.name in str(error), f"try {number}"  # noqa: PT017
        return "refused when read"
    assert found == rows, f"try {number}: what is read differs from what was written"
    return "read unchanged"


def _swept(path: Path, rows: dict[str, Any], number: int) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            ss.sweep(SPEC, path, executor="serial")
        except StoreError as error:
            assert path.name in str(error), f"try {number}"  # noqa: PT017
            return "refused by the sweep"
    assert whole(path) == rows, f"try {number}: the sweep ends with other rows"
    return "mended by the sweep" if caught else "the sweep goes on"
