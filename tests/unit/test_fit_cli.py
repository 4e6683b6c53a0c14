"""`solspace fit` and `solspace classify`: their files, and one sentence for input that they cannot take."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from terminal import invoke

from solspace.learn import LowBitClassifier


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    words = np.array(["cat", "dog"])[(X @ [1.0, -1, 0.5] + 0.3 * rng.standard_normal(90) > 0).astype(int)]
    rows = [",".join([*(f"{value:.4f}" for value in row), word]) for row, word in zip(X, words)]
    (tmp_path / "pets.csv").write_text("\n".join(["a,b,c,pet", *rows]) + "\n")
    (tmp_path / "new.csv").write_text("\n".join(["a,b,c", *(row.rsplit(",", 1)[0] for row in rows[:5])]) + "\n")
    return tmp_path / "pets.csv"


def test_a_table_is_fitted_and_another_classified(table: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    done = invoke("fit", str(table), "--label", "pet", "--folds", "3", "--out", str(out), "--json")
    assert done.exit_code == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((out / "report.json").read_text())
    assert set(report["scores"]) == {"low-bit posterior", "single, ternary", "logistic regression"}
    assert report["scores"]["low-bit posterior"]["accuracy"] > 0.85
    assert report["scores"]["low-bit posterior"]["brier"] < 0.12
    assert {path.name for path in out.iterdir()} == {"model.npz", "classifier.h", "calibration.png", "report.json"}
    labels = tmp_path / "labels.csv"
    done = invoke("classify", str(out / "model.npz"), str(tmp_path / "new.csv"), "--out", str(labels))
    assert done.exit_code == 0, done.stderr
    lines = labels.read_text().splitlines()
    assert lines[0] == "label,P(cat),P(dog)"
    X, model = np.loadtxt(tmp_path / "new.csv", delimiter=",", skiprows=1), LowBitClassifier.load(out / "model.npz")
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    del model.feature_names_in_  # an array has none
    assert [line.split(",")[0] for line in lines[1:]] == model.predict(X).tolist()
    other = "\n".join(["id,c,a,b", *(f"x{i},{c},{a},{b}" for i, (a, b, c) in enumerate(X.tolist()))]) + "\n"
    (tmp_path / "other.csv").write_text(other)  # columns go by name
    done = invoke("classify", str(out / "model.npz"), str(tmp_path / "other.csv"), "--out", str(tmp_path / "same.csv"))
    assert done.exit_code == 0, done.stderr
    assert (tmp_path / "same.csv").read_text() == labels.read_text()
    options = ("--label", "pet", "--out", str(labels), "--json")
    done = invoke("classify", str(out / "model.npz"), str(table), *options)
    assert json.loads(done.stdout)["accuracy"] > 0.85
    done = invoke("classify", str(out / "model.npz"), str(tmp_path / "labels.csv"))
    assert done.exit_code == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--label", "animal"], "no column"),
        (["--label", "a", "--index", "pet"], "each with at least 5 rows"),
        (["--label", "pet", "--levels", "8bit"], "unknown levels"),
        (["--label", "pet", "--single", "auto"], "unknown levels"),
        (["--label", "pet", "--folds", "1"], "at least 2"),
    ],
)
def test_wrong_input_gets_a_sentence(table: Path, tmp_path: Path, options: list[str], words: str) -> None:
    done = invoke("fit", str(table), *options, "--out", str(tmp_path))
    assert done.exit_code == 2
    assert words in done.stderr


def test_missing_cells_get_a_cure(table: Path, tmp_path: Path) -> None:
    text = table.read_text().splitlines()
    table.write_text("\n".join([text[0], "," + text[1].split(",", 1)[1], *text[2:]]))
    done = invoke("fit", str(table), "--label", "pet", "--out", str(tmp_path))
    assert done.exit_code == 2
    assert "SimpleImputer" in done.stderr
