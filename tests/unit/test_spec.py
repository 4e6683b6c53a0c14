"""Specs: what they may say, what they refuse and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import solspace as ss
from solspace.experiments.results import wilson
from solspace.experiments.tasks import Task

TOML = """
n = [9, 11]
alpha = {start = 0.2, stop = 0.5, step = 0.1}
patterns = ["binary", "gaussian"]
instances = 3
target = {prior = "binary", potential = ["log", "uniform"], temperature = 0.5}
[[sampler]]
name = "exact"
"""


def test_toml_and_python_state_the_same_tasks(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(TOML)
    written = ss.Spec.from_toml(path)
    assert written.name == "small"
    assert len(written) == len(list(written.tasks())) == 2 * 4 * 2 * 2 * 3
    stated = ss.Spec(
        n=np.array([9, 11]), alpha=[0.2, 0.3, 0.4, 0.5], patterns=["binary", "gaussian"], instances=3, sampler="exact",
        target=[ss.Target(potential="log"), ss.Target(potential="uniform")],
    )  # fmt: skip
    assert [task.key for task in written.tasks()] == [task.key for task in stated.tasks()]


def test_margin_and_temperature_replace_the_targets_own() -> None:
    spec = ss.Spec(n=9, alpha=0.3, sampler="exact", margin=[0.0, 0.1], temperature=[0.5, float("inf")])
    seen = [(p["target"]["margin"], p["target"]["temperature"]) for p in spec.points()]
    assert seen == [(0.0, 0.5), (0.0, "inf"), (0.1, 0.5), (0.1, "inf")]


def test_every_instance_of_a_point_differs() -> None:
    tasks = list(ss.Spec(n=9, alpha=0.3, sampler="exact", instances=50).tasks())
    assert len({task.key for task in tasks}) == len({task.seed for task in tasks}) == 50


def test_keys_are_what_they_were() -> None:
    """A key that changes without its version orphans every stored result."""
    (task,) = ss.Spec(n=9, alpha=0.3, sampler="exact").tasks()
    assert task.text == (
        '{"alpha":0.3,"instance":0,"keep":[],"kind":"sample","n":9,"n_samples":1,"options":{},"patterns":"binary",'
        '"sampler":"exact","seed":0,"target":{"margin":0.0,"potential":{"name":"log"},"prior":"binary","temperature":0.5}}'
    )
    assert task.key == Task(dict(task.values)).key == "4c20d0d971b0f56e2b245a4b120c8c16"


BAD: list[tuple[dict[str, Any], str]] = [
    ({"alpa": 0.3}, "unknown entry of the spec 'alpa': did you mean 'alpha'"),
    ({"n": 0}, "n must be an integer of at least 1; got 0"),
    ({"n": 9.5}, "n must be an integer"),
    ({"n": True}, "n must be an integer"),
    ({"n": []}, "n is an empty list"),
    ({"n": [9, 9]}, "n contains 9 twice"),
    ({"alpha": -0.1}, "alpha must be a positive number; got -0.1"),
    ({"alpha": float("nan")}, "alpha must be a positive number"),
    ({"alpha": float("inf")}, "alpha must be a positive number"),
    ({"alpha": "0.3"}, "alpha must be a positive number; got '0.3'"),
    ({"alpha": {"start": 0.1, "stop": 0.2}}, "a range needs start, stop and either step or num"),
    ({"alpha": {"start": 0.1, "stop": 0.2, "stepp": 0.1}}, "range alpha 'stepp': did you mean 'step'"),
    ({"alpha": {"start": 0.1, "stop": 0.2, "step": -0.1}}, "step -0.1 does not lead from 0.1 to 0.2"),
    ({"temperature": 0}, "temperature must be a positive number"),
    ({"patterns": "gausian"}, "unknown patterns 'gausian': did you mean 'gaussian'"),
    ({"sampler": "exat"}, "unknown sampler 'exat': did you mean 'exact'"),
    ({"sampler": {"name": "exact", "n_sweps": 3}}, "unknown option of sampler 'exact' 'n_sweps'"),
    ({"sampler": {"nme": "exact"}}, "sampler must be a name or a table with a name"),
    ({"sampler": ["exact", "exact"]}, "sampler contains"),
    ({"n": 21}, "sampler 'exact' needs binary weights and n <= 20"),
    ({"target": {"prior": "spherical"}}, "sampler 'exact' needs binary weights"),
    ({"target": {"pior": "binary"}}, "unknown part of the target 'pior': did you mean 'prior'"),
    ({"target": {"potential": "lgo"}}, "unknown potential 'lgo': did you mean 'log'"),
    ({"target": 3}, "target must be a Target or a table of its parts; got 3"),
    ({"instances": 0}, "instances must be an integer of at least 1"),
    ({"n_samples": "4"}, "n_samples must be an integer of at least 1; got '4'"),
    ({"seed": -1}, "seed must be an integer of at least 0"),
    ({"keep": ["weigths"]}, "unknown array to keep 'weigths': did you mean 'weights'"),
    ({"modules": ["no_such_module"]}, "modules: cannot import 'no_such_module'"),
]


@pytest.mark.parametrize(("entries", "message"), BAD)
def test_every_mistake_gets_a_sentence(entries: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as error:
        ss.Spec.from_dict({"n": 9, "alpha": 0.3, "sampler": "exact", **entries})
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n = 9", "the spec needs an entry 'alpha'"),
        ("n = ", "is not TOML"),
        ("n = 9\nalfa = 1", "did you mean 'alpha'"),
    ],
)
def test_mistakes_in_a_file_name_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"bad\.toml") as error:
        ss.Spec.from_toml(path)
    assert message in str(error.value)
    with pytest.raises(ValueError, match="there is no spec at"):
        ss.Spec.from_toml(tmp_path / "none.toml")


class Steep:
    """A user's own potential."""

    breakpoints = (0.0,)

    def log_weight(self, s: Any) -> Any:
        return np.where(np.asarray(s) < 0, -np.inf, np.asarray(s))


def test_own_potentials_need_a_module() -> None:
    with pytest.raises(ValueError, match="the potential 'Steep' is not registered"):
        ss.Spec(n=9, alpha=0.3, sampler="exact", target=ss.Target(potential=Steep()))


def test_own_potentials_from_a_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_potential.py").write_text(
        "import numpy as np\nfrom solspace import potentials\n\n@potentials.register\nclass Steeper:\n"
        "    breakpoints = (0.0,)\n    def log_weight(self, s):\n        return np.where(s < 0, -np.inf, s)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    table = {"n": 7, "alpha": 0.3, "sampler": "exact", "target": {"potential": "Steeper"}, "modules": "my_potential"}
    results = ss.sweep(ss.Spec.from_dict(table), tmp_path / "runs.db", n_workers=1)
    assert results.status() == {"done": 1, "failed": 0, "to do": 0}, results.failed


def test_means_and_errors(tmp_path: Path) -> None:
    spec = ss.Spec(n=[7, 9], alpha=0.4, sampler="exact", n_samples=3, instances=8)
    results = ss.sweep(spec, tmp_path / "runs.db", executor="serial")
    frame = results.to_pandas()
    expected = frame[frame.status == "done"].groupby("n").overlap.agg(["mean", "sem", "count"])
    for point in results.mean("overlap", by=["n"]):
        assert point["mean"] == pytest.approx(expected.loc[point["n"], "mean"])
        assert point["error"] == pytest.approx(expected.loc[point["n"], "sem"])
        assert point["instances"] == expected.loc[point["n"], "count"]
    low, high = wilson(0.0, 100)
    assert low == pytest.approx(0, abs=1e-12)
    assert 0.005 < high < 0.02


def test_export(tmp_path: Path) -> None:
    results = ss.sweep(ss.Spec(n=9, alpha=0.4, sampler="exact", instances=3), tmp_path / "runs.db", executor="serial")
    results.to_csv(tmp_path / "runs.csv")
    table = pandas.read_csv(tmp_path / "runs.csv", dtype={"seed": str})
    assert len(table) == 3
    assert {"key", "n", "alpha", "prior", "potential", "margin", "sampler", "instance", "solved", "version", "host",
            "seconds", "date", "error"} <= set(table.columns)  # fmt: skip
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        with pytest.raises(ImportError, match=r"solspace\[pandas\]"):
            results.to_parquet(tmp_path / "runs.parquet")
        assert not (tmp_path / "runs.parquet").exists()
    else:
        results.to_parquet(tmp_path / "runs.parquet")
        assert len(pandas.read_parquet(tmp_path / "runs.parquet")) == 3
