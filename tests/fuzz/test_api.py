"""Bad values for the arguments of the public functions: one sentence of `ValueError` or `TypeError`, nothing else.

Each try takes a call that works and replaces one or two of its arguments by something from a drawer of nonsense. The
call returns, or it says in a sentence what is wrong: it never raises another kind of error or a `RuntimeWarning`.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

import solspace as ss

pytestmark = pytest.mark.slow

NAN, INF = float("nan"), float("inf")
JUNK: list[Any] = [
    None, NAN, INF, -INF, -1, 0, -0.0, 0.5, 2.5, 1e-300, 1e308, -(10**400), True, False, 1j, "", "log", "nonsense", "3",
    "nan", "log(", "tau(nan)", "band(-1)", "band(nonsense=2)", b"bytes", [], [1, 2], [[1], [1, 2]], [[[1]]], [None], {},
    {"name": "log"}, set(), (), object(), object, len, Decimal("NaN"), Path("nowhere"), np.nan, np.float32(INF),
    np.int8(-3), np.bool_(True), np.array([]), np.zeros((0, 3)), np.zeros((3, 0)), np.full((4, 9), np.nan), np.zeros((4, 9)),
    np.full((4, 9), 1e200), np.ones((4, 9), complex), np.ma.masked_all((4, 9)), np.array(["a"] * 4), np.array([object()]),
    np.array("2020-01-01", "M8[D]"), np.random.default_rng(0), slice(3), range(3), iter([1]), "x" * 2000, [[]] * 3,
]  # fmt: skip
TARGET = ss.Target()
PROBLEM = ss.Perceptron.random(9, 0.4, rng=1)
PATTERNS = np.where(np.random.default_rng(0).random((4, 9)) < 0.5, -1.0, 1.0)
PREDICTION = ss.predict(TARGET, PROBLEM.alpha)
SAMPLES = ss.Samples.of(PROBLEM, PROBLEM.enumerate().sample(4, rng=0))
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Target": (ss.Target, {"prior": "binary", "potential": "log", "temperature": 0.5, "margin": 0.0}),
    "Perceptron": (ss.Perceptron, {"patterns": PATTERNS, "labels": np.ones(4), "target": TARGET}),
    "random": (ss.Perceptron.random, {"n": 9, "alpha": 0.4, "target": TARGET, "patterns": "binary", "rng": 0}),
    "predict": (ss.predict, {"target": TARGET, "alpha": 0.3}),
    "localize": (ss.localize, {
        "problem": PROBLEM, "n_samples": 2, "rng": 0, "accuracy": "auto", "integrator": "auto", "step": None,
        "longest_step": None, "final_time": None, "tolerance": None, "max_iterations": 20, "damping": "auto",
        "variances": "auto", "precision": "float32", "device": "cpu", "progress": False,
    }),
    "anneal": (ss.anneal, {
        "problem": PROBLEM, "n_chains": 2, "n_sweeps": 3, "schedule": "tau", "rng": 0, "n_extra": 0,
        "thin": 1, "device": "cpu", "n_threads": 1, "progress": False,
    }),
    "amp": (ss.amp, {
        "problem": PROBLEM, "field": None, "time": 0.0, "tolerance": 1e-6, "max_iterations": 20, "damping": "auto",
        "variances": "auto", "precision": "float64",
    }),
    "solve": (ss.solve, {
        "problem": PROBLEM, "n_solutions": 2, "rng": 0, "method": "auto", "time_limit": 1.0, "device": "cpu",
        "progress": False, "callback": None,
    }),
    "diagnose": (ss.diagnose, {"samples": SAMPLES, "prediction": PREDICTION, "reference": None}),
    "Spec": (ss.Spec, {
        "n": 9, "alpha": 0.3, "target": None, "sampler": "exact", "margin": None, "temperature": None,
        "patterns": "binary", "n_samples": 1, "instances": 1, "seed": 0, "keep": (), "name": "sweep", "modules": (),
    }),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_bad_values_get_a_sentence(name: str, budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    function, good = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a run of 20 steps did not converge, in words
        function(**good)
    nonsense = st.dictionaries(st.sampled_from(sorted(good)), st.sampled_from(range(len(JUNK))), min_size=1, max_size=2)

    @seed(0)
    @settings(max_examples=budget(120, 1000), database=None)
    @given(nonsense)
    def attempt(changes: dict[str, int]) -> None:
        tally[_outcome(function, {**good, **{key: JUNK[k] for key, k in changes.items()}})] += 1

    attempt()


def _outcome(function: Callable[..., Any], arguments: dict[str, Any]) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a run of 20 steps did not converge, in words
        warnings.simplefilter("error", RuntimeWarning)
        try:
            function(**arguments)
        except (ValueError, TypeError, ImportError) as error:
            assert str(error), repr(error)  # noqa: PT017
            return "refused in a sentence"
    return "taken"
