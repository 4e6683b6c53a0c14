"""Data as people have them, given to the command line: one file and a label, however both are written."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas
import pytest
from matplotlib.figure import Figure
from scipy import sparse
from terminal import invoke

import solspace as ss
from solspace.data.instances import scale
from solspace.numerics.streams import generator

RANDOM = np.random.default_rng(3)
X, Y = RANDOM.normal(size=(6, 11)), np.array([1, -1, 1, 1, -1, -1])
ANIMALS = np.where(Y > 0, "dog", "cat")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)  # pictures are looked at elsewhere
    frame = pandas.DataFrame(X, columns=[f"f{k}" for k in range(11)]).assign(animal=ANIMALS)
    frame.to_csv("table.csv")
    frame.assign(name=list("abcdef")).to_csv("named.tsv", sep="\t", index=False)
    frame.to_csv("packed.csv.gz")
    frame.to_parquet("table.parquet")
    pandas.DataFrame(X).assign(label=Y > 0).to_csv("truth.csv", index=False)
    pandas.concat([frame, frame.assign(animal="cow")]).to_csv("three.csv", index=False)
    frame.animal.to_csv("animals.csv")
    np.savez("both.npz", X=X, y=Y)
    np.savez("named.npz", X=X, kind=ANIMALS)
    np.save("one.npy", np.column_stack([X, Y]))
    np.savez("pixels.npz", X=RANDOM.integers(0, 256, (6, 11), dtype=np.uint8), y=Y)
    sparse.save_npz("sparse.npz", sparse.csr_matrix(X))
    np.save("y.npy", Y)


def solved(*words):
    """Return what `solspace solve` says, as JSON, and the problem that it solved, by its stabilities."""
    done = invoke("solve", "--method", "exact", "--json", *words)
    assert done.exit_code in (0, 1), done.stderr
    found = ss.Samples.load("solutions.npz")
    return json.loads(done.stdout), found


@pytest.mark.parametrize(
    "words",
    [
        "--data table.csv --label animal",
        "--data table.csv --label -1",
        "--data named.tsv --label animal --index name",
        "--data packed.csv.gz --label animal",
        "--data table.parquet --label animal",
        "--data truth.csv --label label",
        "--data three.csv --label animal --classes cat,dog",
        "--data both.npz",
        "--data named.npz --label kind",
        "--data one.npy --label 11",
        "--data sparse.npz --labels y.npy",
        "--patterns sparse.npz --labels animals.csv",
    ],
)
def test_a_file_and_a_label_are_the_problem(words):
    report, found = solved(*words.split())
    assert report["problem"]["n"] == 11
    expected = ss.Perceptron(X, Y).stabilities(found.weights)
    np.testing.assert_allclose(found.stabilities, expected, rtol=1e-12)
    assert report.get("labels", {"+1": "dog"})["+1"] in ("dog", "True")
    assert "hint" not in report


@pytest.mark.parametrize("how", ["none", "centre", "norm"])
def test_a_scale_has_its_effect(how):
    for given in (["--data", "both.npz"], ["--patterns", "both.npz"]):
        _, found = solved(*given, "--scale", how)
        np.testing.assert_allclose(found.stabilities, ss.Perceptron(scale(X, how), Y).stabilities(found.weights))
    rows = scale(X, how)
    assert {"centre": abs(rows.mean(0)).max(), "norm": abs((rows**2).mean(1) - 1).max()}.get(how, 0) < 1e-12


def test_a_load_features_and_preprocessing_have_their_effect_on_a_file():
    options = ["--alpha", "0.4", "--features", "12", "--preprocess", "centred"]
    _, found = solved("--data", "table.csv", "--label", "animal", *options)
    expected = ss.Perceptron.from_data(X, Y, 0.4, 12, "centred", rng=generator(0, 0))
    np.testing.assert_allclose(found.stabilities, expected.stabilities(found.weights), rtol=1e-6)


def test_pixels_get_a_hint_about_their_scale_in_words_and_in_the_report():
    exact = ["sample", "--sampler", "exact", "--samples", "2", "--data", "pixels.npz"]
    hints = [line for line in invoke(*exact).stderr.splitlines() if line.startswith("hint: ")]
    assert len(hints) == 1
    assert "times too large" in hints[0]
    assert "--scale norm" in hints[0]
    report, _ = solved("--data", "pixels.npz")
    assert hints[0] == f"hint: {report['hint']}"
    counted = invoke("count", "--method", "ep", "--json", "--data", "pixels.npz")
    assert json.loads(counted.stdout)["hint"] == report["hint"]
    for cure in (["--scale", "norm"], ["--preprocess", "centred"], ["--scale", "none"]):
        assert "hint" not in invoke(*exact, *cure).stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--data table.csv", "table.csv needs labels: say which column"),
        ("--data sparse.npz", "sparse.npz needs labels"),
        ("--data table.csv --label anmal", "no column 'anmal'"),
        ("--data none.csv --label y", "there is no file none.csv"),
        ("--data table.txt --label y", "known kinds are"),
        ("--data diggits", "unknown data set 'diggits': did you mean 'digits'"),
        ("--data three.csv --label animal", "3 classes (cat, cow, dog): choose two, as in --classes cat,cow"),
        ("--data three.csv --label animal --classes cat,horse", "unknown class 'horse'"),
        ("--data three.csv --label animal --classes cat", "must be two different labels"),
        ("--data table.csv --label animal --index animal", "the label and the index at once"),
        ("--data both.npz --label z", "no array 'z'; it holds X, y"),
        ("--data both.npz --labels y.npy", "brings labels of its own"),
        ("--data one.npy --label 12", "go by number, 0 to 11"),
        ("--data both.npz --index 0", "--index names a column of a table"),
        ("--data both.npz --scale half", "unknown scale 'half'"),
        ("--patterns table.csv", "text in column 'animal'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(words, message):
    done = invoke("solve", *words.split())
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_samples_that_solve_nothing_end_with_exit_code_1_and_are_kept():
    impossible = ["sample", "--sampler", "tau", "--n", "21", "--alpha", "3", "--sweeps", "3", "--samples", "2"]
    for more in ([], ["--json"]):
        done = invoke(*impossible, *more)
        assert done.exit_code == 1
        assert "none of the 2 samples meets all constraints" in done.stderr.splitlines()[-1]
        assert ss.Samples.load("samples.npz").weights.shape == (2, 21)
        assert json.loads(Path("report.json").read_text())["solved"] == 0
    assert json.loads(done.stdout)["solved"] == 0
    soft = ["--potential", "hinge", "--temperature", "5"]  # asks for no solutions: none is no failure
    done = invoke("sample", "--sampler", "exact", "--n", "11", "--alpha", "3", "--samples", "2", *soft)
    assert done.exit_code == 0, done.stderr
