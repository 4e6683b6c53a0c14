"""Damaged checkpoints: a run goes on from its own state to its own samples, or says in a sentence why not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutations import bounded, check_sentence, mutated

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint

pytestmark = pytest.mark.slow

PROBLEM = ss.Perceptron.random(31, 0.3, rng=0)
SPHERE = PROBLEM.with_target(ss.Target("spherical", "uniform", margin=-1.0))
RUNS: dict[str, Callable[..., ss.Samples]] = {
    "anneal": lambda **options: ss.anneal(PROBLEM, 2, 30, rng=0, n_extra=20, n_threads=1, **options),
    "localize": lambda **options: ss.localize(PROBLEM, 2, rng=0, **options),
    "localize on the sphere": lambda **options: ss.localize(SPHERE, 2, rng=0, final_time=20.0, **options),
}
PATH = Path("run.npz")


class Stop(Exception):
    pass


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def states(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list to which every checkpoint and its state are added as they are written."""
    seen: list[Any] = []

    def save(self: Checkpoint, make: Callable[[], dict[str, Any]]) -> None:
        state = {name: np.array(array) for name, array in make().items()}
        self.save(state)
        seen.append((self, state))

    monkeypatch.setattr(Checkpoint, "maybe_save", save)
    return seen


def outcome(run: Callable[..., ss.Samples], number: int) -> Any:
    """Return the samples of the resumed run, None where it refused."""
    try:
        with bounded():
            return run(checkpoint=PATH)
    except ValueError as error:
        check_sentence(error, number)
        return None


@pytest.mark.parametrize("name", RUNS)
def test_damaged_files(
    name: str,
    states: list[Any],
    budget: Callable[[int, int], int],
    tally: Counter[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = RUNS[name]
    whole = run(checkpoint=PATH)
    store, state = states[len(states) // 2]
    store.save(state)
    content = PATH.read_bytes()
    monkeypatch.setattr(Checkpoint, "maybe_save", lambda *_: None)
    for number in range(budget(40, 2500)):
        PATH.write_bytes(mutated(content, np.random.default_rng(number)))
        resumed = outcome(run, number)
        if resumed is not None:
            np.testing.assert_array_equal(resumed.weights, whole.weights, f"try {number}")
            np.testing.assert_array_equal(resumed.stabilities, whole.stabilities, f"try {number}")
        tally["refused" if resumed is None else "resumed to the same samples"] += 1
