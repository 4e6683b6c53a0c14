"""The command line: results on standard output, one sentence and exit code 2 for nonsense."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import solspace as ss


def run(*arguments, cwd):
    command = [sys.executable, "-c", "from solspace.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


def test_exact_samples_table_and_files(tmp_path):
    done = run("sample", "--sampler", "exact", "--n", "11", "--samples", "5", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "5/5" in done.stdout
    samples = ss.Samples.load(tmp_path / "samples.npz")
    assert samples.weights.shape == (5, 11)
    assert samples.solved.all()
    assert (tmp_path / "samples.png").read_bytes()[:4] == b"\x89PNG"
    assert json.loads((tmp_path / "report.json").read_text())["solved"] == 5


def test_own_patterns_and_json(tmp_path):
    matrix = np.random.default_rng(0).choice([-1, 1], size=(4, 9))
    np.savetxt(tmp_path / "X.csv", matrix, delimiter=",", header="a,b", comments="")
    np.save(tmp_path / "y.npy", np.array([1, -1, 1, -1]))
    done = run("sample", "--sampler", "exact", "--patterns", "X.csv", "--labels", "y.npy", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["problem"]["n"] == 9
    assert report["solved"] == 16


class Bomb:
    def __reduce__(self):
        return eval, ("open('pwned', 'w').close()",)


def make_bad_files(folder):
    (folder / "text.npy").write_text("hello")
    (folder / "words.csv").write_text("a,b\nc,d\n")
    (folder / "empty.csv").write_text("")
    (folder / "pickle.npy").write_bytes(pickle.dumps(Bomb()))
    np.save(folder / "object.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    np.save(folder / "ok.npy", np.ones((3, 5)))
    np.save(folder / "nan.npy", np.full((3, 5), np.nan))
    np.savez(folder / "two.npz", a=np.ones(2), b=np.ones(2))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--n", "21", "--sampler", "exact"], "at most 20"),
        (["--sampler", "exactt"], "did you mean 'exact'"),
        (["--alpha", "-1"], "alpha must be"),
        (["--temperature", "0"], "temperature must be positive"),
        (["--potential", "lgo"], "did you mean 'log'"),
        (["--prior", "sphere"], "did you mean 'spherical'"),
        (["--patterns", "none.npy"], "there is no file"),
        (["--patterns", "text.npy"], "cannot read text.npy"),
        (["--patterns", "words.csv"], "cannot read words.csv"),
        (["--patterns", "empty.csv"], "cannot read empty.csv"),
        (["--patterns", "pickle.npy"], "cannot read pickle.npy"),
        (["--patterns", "object.npy"], "not pickled objects"),
        (["--patterns", "nan.npy"], "NaN or inf"),
        (["--patterns", "two.npz"], "several arrays"),
        (["--patterns", "ok.txt"], "known kinds are"),
        (["--labels", "ok.npy"], "needs --patterns"),
        (["--patterns", "ok.npy", "--labels", "ok.npy"], "labels must have shape"),
    ],
)
def test_nonsense_is_one_sentence_and_exit_code_2(tmp_path, arguments, words):
    make_bad_files(tmp_path)
    done = run("sample", *arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "pwned").exists()


def test_unknown_option_and_help(tmp_path):
    assert run("sample", "--bogus", cwd=tmp_path).returncode == 2
    assert "solspace sample" in run("--help", cwd=tmp_path).stdout
    assert run("--version", cwd=tmp_path).stdout.strip() == f"solspace {ss.__version__}"
