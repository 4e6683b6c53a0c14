"""Arguments put together at random: a verb does its work, or says in one sentence why not, with exit code 1 or 2.

Each try takes a verb and some of its options, each with a value from a drawer of good and bad ones. Theory and pictures,
which are not at stake and cost seconds, are left out; samplers run on small problems.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from mutations import bounded
from scipy import sparse
from terminal import commands, invoke

import solspace as ss
from solspace.experiments import executors
from solspace.samplers.registry import SAMPLERS

JUNK = [
    "", " ", "nan", "inf", "-1", "0", "1e400", "9" * 30, "9" * 5000, "\x00", "é", "None", "--", "a,b", "1:2",
    "../..", "/dev/null",
]  # fmt: skip
NUMBERS = ["1", "2", "3", "0.3", "1.5", "-0.5"]
FILES = [
    "X.npy", "y.npy", "both.npz", "X.csv", "words.csv", "bad.npy", "none.npy", "folder", "two.npz", "table.csv",
    "table.tsv", "sparse.npz", "spec.toml", "bad.toml",
]  # fmt: skip
DRAWERS: dict[str, list[str]] = {
    "--sampler": ["asl", "tau", "sa", "exact"],
    "--samples": ["1", "2", "3"],
    "--seed": ["0", "7", "9" * 30],
    "--accuracy": ["auto", "fast", "careful"],
    "--damping": ["auto", "0.3", "1"],
    "--precision": ["float32", "float64", "float16"],
    "--sweeps": ["1", "5", "20"],
    "--device": ["cpu", "auto", "gpu"],
    "--n": ["7", "11", "15"],
    "--alpha": ["0.2", "0.3", "0.5"],
    "--ensemble": ["binary", "gaussian"],
    "--patterns": FILES,
    "--labels": FILES,
    "--data": ["digits", "diggits", *FILES, "table.csv", "both.npz"],
    "--label": ["animal", "animal", "a", "0", "-1", "99"],
    "--index": ["a", "0", "none"],
    "--scale": ["none", "centre", "norm", "half"],
    "--classes": ["3,8", "3 8", "1,1", "x", "cat,dog"],
    "--features": ["3", "9"],
    "--preprocess": ["centred", "raw", "binarised"],
    "--prior": ["binary", "spherical"],
    "--potential": ["log", "uniform", "hinge", "errors", "band(1.5)", "tau(0.5)", "tau()", "band(nonsense=2)", "log("],
    "--temperature": ["0.5", "1", "inf"],
    "--margin": ["0", "-0.5", "0.1"],
    "--out": ["o", "X.npy", "folder", "o/deep/er", "readonly"],
    "--times": ["0,1,2", "0:1:3"],
    "--alphas": ["0.1:0.2:2"],
    "--margins": ["-1:0:2"],
    "--size": ["quick", "paper"],
    "--store": ["runs.db", "X.npy", "folder", "o/runs.db"],
    "--executor": ["serial", "dask", "processes"],
    "--scheduler": ["tcp://127.0.0.1:1"],
    "--workers": ["1", "2"],
    "--export": ["rows.csv", "rows.txt", "folder"],
    "--folder": [".", "none"],
    "--split": ["train", "test"],
    "--port": ["0"],
    "--host": ["127.0.0.1"],
}
"""Values for options that take one."""
ARGUMENTS = {
    "reproduce": ["edge", "mnist", "all", "edg"],
    "sweep": ["spec.toml"] * 4 + ["bad.toml", "X.npy", "none.toml"],
    "data": ["prepare digits", "prepare mnist", "prepare"],
}
TRIED = ("sample", "sample", "sample", "predict", "phase", "reproduce", "sweep", "data")
"""`explore` and `bench` start servers and minutes of work."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOLSPACE_DATA", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    random = np.random.default_rng(0)
    X, y = random.choice([-1, 1], (4, 11)), np.array([0, 1, 1, 0])
    np.save("X.npy", X)
    np.save("y.npy", y)
    np.savez("both.npz", X=X, y=y)
    np.savez("two.npz", a=X, b=y)
    np.savetxt("X.csv", X, delimiter=",")
    table = "a,b,c,animal\n" + "".join(f"{k},{-k},{k * k},{'cat' if k % 2 else 'dog'}\n" for k in range(1, 5))
    Path("table.csv").write_text(table)
    Path("table.tsv").write_text(table.replace(",", "\t"))
    sparse.save_npz("sparse.npz", sparse.csr_array(X))
    Path("words.csv").write_text("species\ncat\ndog\ndog\ncat\n")
    Path("bad.npy").write_bytes(Path("X.npy").read_bytes()[:50])
    Path("spec.toml").write_text('n = 7\nalpha = 0.2\nsampler = ["exact", "tau"]\ninstances = 2\n')
    Path("bad.toml").write_text("n = [7\n")
    Path("folder").mkdir()
    return tmp_path


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what costs seconds and is tried elsewhere: pictures, theory, downloads, other processes."""

    def left_out(*_: Any, **__: Any) -> None:
        raise ValueError("left out.")

    monkeypatch.setattr(Figure, "savefig", lambda *_, **__: None)
    for name, sampler in SAMPLERS.items():
        monkeypatch.setitem(SAMPLERS, name, replace(sampler, size=11))
    for name in ("predict", "thresholds", "phase_diagram", "sampling_map"):
        monkeypatch.setattr(f"solspace.{name}", left_out)
    monkeypatch.setattr("solspace.experiments.reproduce.run_tasks", left_out)
    monkeypatch.setattr("solspace.cli.reproduce._cost", left_out)
    monkeypatch.setattr("solspace.data.fetch", left_out)
    monkeypatch.setattr("solspace.data._folders", lambda folder: [Path(folder or ".")])
    monkeypatch.setitem(executors.EXECUTORS, "processes", executors.serial)
    monkeypatch.setitem(executors.EXECUTORS, "dask", executors.serial)


def arguments(random: np.random.Generator, options: dict[str, list[tuple[str, bool]]]) -> list[str]:
    """Return a verb and some of its options, one value in seven of them nonsense."""
    verb = str(random.choice(TRIED))
    words = [verb]
    if verb in ARGUMENTS and random.random() < 0.9:
        words += str(random.choice(ARGUMENTS[verb])).split()
    known = options[verb]
    if verb == "sample" and random.random() < 0.8:
        words += (
            ["--sampler", str(random.choice(DRAWERS["--sampler"][1:])), "--n", "11"] if random.random() < 0.7 else []
        )
    for number in random.permutation(len(known))[: int(random.integers(0, 5))]:
        option, takes = known[number]
        words.append(option)
        if takes:
            drawer = JUNK if random.random() < 0.15 else DRAWERS.get(option, NUMBERS)
            words.append(str(random.choice(drawer)))
    if random.random() < 0.02:
        words.insert(int(random.integers(len(words) + 1)), str(random.choice(["--bogus", "stray", "--json=1", "-x"])))
    return words


def listed() -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    for name, command in commands().items():
        given = [p for p in command.params if p.opts[0].startswith("--") and p.opts[0] != "--help"]
        yield name, [(p.opts[0], not p.is_flag) for p in given]


def test_arguments_at_random(folder: Path, budget: Callable[[int, int], int], tally: Counter[str]) -> None:
    options = dict(listed())
    for number in range(budget(120, 4000)):
        words = arguments(np.random.default_rng(number), options)
        with bounded():
            done = invoke(*words)
        output = done.stdout + done.stderr
        context = f"try {number}: {words}\n{output}"
        assert done.exception is None or isinstance(done.exception, SystemExit), context
        assert done.exit_code in (0, 1, 2), context
        assert "Traceback" not in output, context
        if done.exit_code:
            said = [line for line in done.stderr.splitlines() if line.startswith("solspace: ")]
            usage = "─ Error ─" in output  # an option or a value that the parser itself refuses
            assert usage or len(said) == 1, context
            assert "--debug" not in done.stderr, context  # nothing but what was foreseen
            assert "not enough memory" not in done.stderr, context
        elif words[0] == "sample" and "--help" not in words:
            check_samples(words, done.stdout)
        tally[("did their work", "failed in a sentence", "were refused in a sentence")[done.exit_code]] += 1


def check_samples(words: list[str], output: str) -> None:
    """Check that samples which were called drawn are there, and of the prior."""
    out = Path(words[len(words) - words[::-1].index("--out")] if "--out" in words else ".")
    drawn = ss.Samples.load(out / "samples.npz")
    assert drawn.target.prior.contains(drawn.weights).all(), words
    if "--json" in words:
        assert json.loads(output)["samples"] == len(drawn), words
