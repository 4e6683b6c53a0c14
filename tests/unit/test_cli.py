"""The command line: results on standard output, one sentence and exit code 2 for nonsense."""

from __future__ import annotations

import json
import pickle
import re
import shlex
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest
from terminal import invoke

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers import device
from solspace.samplers.checkpoint import Checkpoint

PREDICT = ["predict", "--no-thresholds", "--alpha", "0.3"]


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
        (["--patterns", "text.npy"], "text.npy cannot be read"),
        (["--patterns", "words.csv"], "words.csv cannot be read"),
        (["--patterns", "empty.csv"], "empty.csv cannot be read"),
        (["--patterns", "pickle.npy"], "pickle.npy cannot be read"),
        (["--patterns", "object.npy"], "object.npy cannot be read"),
        (["--patterns", "nan.npy"], "NaN or inf"),
        (["--patterns", "two.npz"], "several arrays"),
        (["--patterns", "ok.txt"], "known kinds are"),
        (["--labels", "ok.npy"], "needs --patterns"),
        (["--patterns", "ok.npy", "--labels", "ok.npy"], "one label for each row"),
        (["--seed", "-1"], "--seed must"),
        (["--samples", "0"], "--samples must"),
        (["--sampler", "tau", "--sweeps", "0"], "--sweeps must"),
        (["--sampler", "exact", "--prior", "spherical"], "--prior must be binary"),
        (["--accuracy", "quick"], "unknown --accuracy"),
        (["--denoiser", "map"], "unknown --denoiser"),
        (["--denoiser", "ep", "--prior", "spherical"], "--denoiser ep takes ±1 weights"),
        (["--denoiser", "ep", "--damping", "0.5"], "--damping belongs to AMP"),
        (["--sampler", "tau", "--denoiser", "amp"], "--denoiser belongs to --sampler asl"),
        (["--n", "2000000000"], "take smaller ones"),
    ],
)
def test_nonsense_is_one_sentence_and_exit_code_2(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    make_bad_files(tmp_path)
    done = invoke("sample", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "pwned").exists()


def labelled(folder):
    """Write the same patterns and labels in many ways; return the arguments for each."""
    random = np.random.default_rng(0)
    X, y = random.choice([-1, 1], size=(5, 11)), np.array([1, -1, 1, 1, -1])
    np.save(folder / "X.npy", X)
    np.savez(folder / "both.npz", X=X, y=y, more=np.arange(3))
    np.savez(folder / "named.npz", patterns=X, labels=np.where(y > 0, 8, 3))
    np.save(folder / "signs.npy", y)
    np.save(folder / "bits.npy", (y > 0).astype(np.uint8))
    np.save(folder / "booleans.npy", y > 0)
    np.save(folder / "words.npy", np.where(y > 0, "dog", "cat"))
    np.savez(folder / "labels.npz", y=y > 0)
    (folder / "words.csv").write_text("species\n" + "\n".join(np.where(y > 0, "dog", "cat")) + "\n")
    (folder / "bits.csv").write_text("\n".join(map(str, (y > 0).astype(int))))
    apart = ("bits.npy", "booleans.npy", "words.npy", "labels.npz", "words.csv", "bits.csv")
    return [["both.npz"], ["named.npz"], *(["X.npy", "--labels", name] for name in apart)]


def sample(*arguments):
    return invoke("sample", "--sampler", "exact", *arguments)


def test_labels_of_two_classes_come_in_many_ways_and_mean_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ways = labelled(tmp_path)
    sample("--patterns", "X.npy", "--labels", "signs.npy")
    expected = ss.Samples.load("samples.npz").stabilities
    sample("--patterns", "X.npy")
    assert not np.array_equal(ss.Samples.load("samples.npz").stabilities, expected)
    for way in ways:
        done = sample("--patterns", *way)
        assert done.exit_code == 0, done.stderr
        np.testing.assert_array_equal(ss.Samples.load("samples.npz").stabilities, expected)
        said = json.loads((tmp_path / "report.json").read_text()).get("labels")
        assert (said is None) == (way == ["both.npz"])  # the only one whose labels are ±1 already
        assert ("is taken for -1" in done.stderr) == (said is not None)
    assert "labels: cat is taken for -1, dog for +1" in sample("--patterns", "X.npy", "--labels", "words.csv").stderr
    assert said == {"-1": "0", "+1": "1"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["both.npz", "--labels", "signs.npy"], "brings labels of its own"),
        (["words.csv"], "holds words instead of numbers"),
        (["X.npy", "--labels", "three.npy"], "choose two, as in --classes 1,2"),
        (["X.npy", "--labels", "one.npy"], "one class only"),
        (["X.npy", "--classes", "0,1"], "--classes chooses"),
        (["X.npy", "--labels", "words.txt"], "known kinds are"),
        (["X.npy", "--alpha", "1000"], "alpha can be at most"),
        (["X.npy", "--features", "0"], "features must be an integer of at least 1"),
        (["X.npy", "--preprocess", "centre"], "did you mean 'centred'"),
    ],
)
def test_data_that_cannot_be_meant(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    labelled(tmp_path)
    np.save("three.npy", np.array([1, 2, 3, 1, 2]))
    np.save("one.npy", np.ones(5, int))
    done = sample("--patterns", *arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


def table(folder, m=40, n=24, labels=None):
    """Write a table whose first feature varies much more than the others; return the arguments that name it."""
    random = np.random.default_rng(2)
    X = random.normal(size=(m, n)) * np.append(30, np.ones(n - 1))
    y = random.choice([0, 1], m) if labels is None else labels
    head = ",".join([*(f"f{i}" for i in range(n)), "target"])
    np.savetxt(folder / "table.csv", np.column_stack([X, y]), delimiter=",", header=head, comments="")
    return ["--data", "table.csv", "--label", "target"]


@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("further", [[], ["--preprocess", "centred"]])
def test_a_table_with_one_class_is_an_error(tmp_path, monkeypatch, label, further):
    monkeypatch.chdir(tmp_path)
    done = invoke("sample", *table(tmp_path, labels=np.full(40, label)), *further)
    assert done.exit_code == 2
    assert "one class" in done.stderr


@pytest.mark.parametrize(
    ("options", "denoiser", "judged"),
    [
        (["--prior", "spherical"], "AMP", True),
        ([], "expectation propagation", True),
        (["--denoiser", "amp"], "AMP", True),
        (["--potential", "uniform"], "expectation propagation", True),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_what_is_said_before_a_localization_is_what_is_done(tmp_path, monkeypatch, options, denoiser, judged):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("solspace.cli.sample.SWEEPS", 40)
    columns = table(tmp_path)
    done = invoke("sample", *columns, "--preprocess", "centred", "--alpha", "0.3", "--samples", "4", *options)
    assert done.exit_code in (0, 1), done.stderr
    assert f"denoiser: {denoiser};" in done.stderr
    assert ("no chains judge the samples" in done.stderr) != judged
    assert any("chains" in line for line in done.stdout.splitlines()[:3]) == judged  # the last column's title
    (row,) = [line for line in done.stdout.splitlines() if line.startswith("denoiser")]
    assert denoiser in row


def test_no_advice_follows_the_proof_that_there_is_no_solution(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = ["--sampler", "tau", "--samples", "4", "--sweeps", "20"]
    done = invoke("sample", "--n", "11", "--alpha", "4", *options)
    assert done.exit_code == 1
    assert "there is no solution" in done.stdout
    said = done.stderr.splitlines()[-1] + done.stdout
    assert "there is no solution" in said
    assert not any(word in said for word in ("try", "Try", "sweeps", "solspace solve"))


def test_advice_on_the_command_line_names_its_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("sample", *table(tmp_path), "--preprocess", "centred", "--samples", "4")
    assert done.exit_code == 1
    printed = done.stderr + done.stdout
    assert "--denoiser amp" in printed
    assert not any(word in printed for word in ("denoiser=", "accuracy=", "n_extra", "ss.anneal"))


def test_a_load_features_and_preprocessing_have_their_effect_on_your_patterns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).normal(size=(40, 15)) + 1
    np.savez("both.npz", X=X, y=np.arange(40) % 2)
    options = ["--alpha", "0.4", "--features", "13", "--preprocess", "centred", "--samples", "2", "--json"]
    done = sample("--patterns", "both.npz", *options)
    about = json.loads(done.stdout)["problem"]
    assert (about["n"], about["m"]) == (13, 5)
    expected = ss.Perceptron.from_data(X, np.arange(40) % 2, 0.4, 13, "centred", rng=generator(0, 0))
    drawn = ss.Samples.load("samples.npz")
    np.testing.assert_allclose(drawn.stabilities, expected.stabilities(drawn.weights), rtol=1e-6)


def test_a_device_that_is_not_there_is_one_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(device, "missing", lambda: "needs CuPy: pip install 'solspace[gpu]'.")
    done = invoke("sample", "--device", "gpu")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert "needs CuPy" in done.stderr


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            MemoryError("Unable to allocate 8 TiB"),
            1,
            "not enough memory for this (Unable to allocate 8 TiB); ask for less",
        ),
        (ZeroDivisionError("division by zero"), 1, "(ZeroDivisionError: division by zero); `solspace --debug ...`"),
        (OverflowError("too large"), 1, "left the range"),
        (RecursionError("maximum depth"), 1, "(RecursionError: maximum depth)"),
        (OSError(28, "No space left on device", "o/x"), 1, "No space left on device: o/x"),
        (OSError("something"), 1, "something"),
        (TypeError("a bug"), 1, "(TypeError: a bug)"),
        (PermissionError(13, "Permission denied", "o"), 2, "Permission denied: o"),
        (ImportError("needs Panel"), 2, "needs Panel"),
        (ValueError("two\nlines"), 2, "two lines"),
        (KeyboardInterrupt(), 130, "stopped; nothing was written"),
    ],
)
def test_failures_are_one_sentence_and_debug_shows_the_trace(monkeypatch, tmp_path, error, code, words):
    def fails(*_, **__):
        raise error

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("solspace.sampling_map", fails)
    done = invoke("phase", "--margins=-1:0:2")
    assert done.exit_code == code
    assert done.stderr.count("\n") == 1
    assert words in done.stderr
    if isinstance(error, Exception):
        traced = invoke("--debug", "phase", "--margins=-1:0:2")
        assert traced.exception is error


@pytest.mark.slow
def test_a_closed_pipe_ends_a_verb_quietly(tmp_path):
    for arguments in (["sample", "--sampler", "exact", "--json"], ["reproduce", "--list"], PREDICT, ["--help"]):
        command = [sys.executable, "-c", "from solspace.cli import main; main()", *arguments]
        process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.close()  # as `head` does when it has seen enough
        said = process.stderr.read()
        process.stderr.close()
        assert process.wait() == (1 if arguments == ["--help"] else 128 + 13)
        assert "roken" not in said
        assert "Traceback" not in said
        assert "Exception" not in said


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_a_stream_that_lacks_characters_gets_the_result_all_the_same(tmp_path, monkeypatch, encoding):
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    done = run(*PREDICT, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "0.51104685" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(tmp_path, closed):
    command = shlex.join([sys.executable, "-c", "from solspace.cli import main; main()", *PREDICT])
    done = subprocess.run(f"{command} {closed}", cwd=tmp_path, shell=True, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr.strip() in ("", "wrote prediction.png")
    assert (tmp_path / "prediction.png").read_bytes()[:4] == b"\x89PNG"


def test_a_piped_table_is_as_wide_as_its_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    targets = ", ".join(f'{{temperature = 0.{k}, potential = "hinge", margin = 0.{k}}}' for k in range(1, 7))
    spec = f'n = 9\nalpha = 0.3\nsampler = "exact"\ntarget = [{targets}]\n'
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8-sig")  # as editors on Windows save it
    done = invoke("sweep", "spec.toml", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) < 100
    assert "".join(done.stdout.split()).count("hinge") == 6


def test_what_is_in_the_way_of_the_results_is_noticed_before_the_run(tmp_path):
    (tmp_path / "o" / "samples.npz").mkdir(parents=True)
    done = run("sample", "--out", "o", cwd=tmp_path)
    assert done.returncode == 2
    assert "o/samples.npz, but that is a folder" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    (tmp_path / "p" / "asl.checkpoint.npz").mkdir(parents=True)
    done = run("sample", "--out", "p", cwd=tmp_path)
    assert done.returncode == 2
    assert not (tmp_path / "p" / "samples.npz").exists()


def test_results_that_cannot_be_written_leave_the_checkpoint(tmp_path, monkeypatch):
    """The disk fills up while the results are written: the run is not lost."""

    def full(*_, **__):
        raise OSError(28, "No space left on device", "samples.npz")

    monkeypatch.chdir(tmp_path)
    arguments = ["sample", "--sampler", "tau", "--n", "101", "--samples", "2", "--sweeps", "50"]
    with monkeypatch.context() as broken:
        broken.setattr(ss.Samples, "save", full)
        broken.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
        broken.setattr(sys, "argv", ["solspace", *arguments])
        done = invoke(*arguments)
    assert done.exit_code == 1
    assert f"To go on: solspace {' '.join(arguments)} --resume" in done.stderr
    assert (tmp_path / "tau.checkpoint.npz").exists()
    again = invoke(*arguments, "--resume")
    assert again.exit_code == 0, again.stderr
    assert not (tmp_path / "tau.checkpoint.npz").exists()
    weights = ss.Samples.load("samples.npz").weights
    invoke(*arguments)
    np.testing.assert_array_equal(ss.Samples.load("samples.npz").weights, weights)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["predict", "--alpha", "-1"], "alpha must be"),
        (["predict", "--times", "a,b"], "--times must be numbers"),
        (["phase", "--alphas", "1"], "FIRST:LAST:COUNT"),
        (["phase", "--alphas", "0:1:99999"], "1 to 10000 values"),
        (["sample", "--damping", "much"], "--damping must be"),
        (["sample", "--damping", "1.5"], "--damping must be"),
        (["sample", "--data", "mnsit"], "did you mean 'mnist'"),
        (["explore", "--port", "65536"], "--port must be"),
        (["reproduce", "edge", "--workers", "0"], "--workers must be"),
    ],
)
def test_nonsense_for_any_verb(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert words in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("option", "number"), [("--n", "1" + "0" * 400), ("--samples", "1" + "0" * 18), ("--sweeps", "-1" + "0" * 18)]
)
def test_numbers_of_many_digits(tmp_path, monkeypatch, option, number):
    monkeypatch.chdir(tmp_path)
    done = invoke("sample", "--sampler", "tau", option, number)
    assert done.exit_code == 2
    assert f"{option} must be smaller than 2^31" in done.stderr


def test_unknown_option_and_help(tmp_path):
    assert run("sample", "--bogus", cwd=tmp_path).returncode == 2
    assert "solspace sample" in run("--help", cwd=tmp_path).stdout
    assert run("--version", cwd=tmp_path).stdout.strip() == f"solspace {ss.__version__}"


HARD = "a hard instance, on which expectation propagation does not converge"


@pytest.mark.parametrize(
    "arguments", [[HARD], ["--n", "51", "--samples", "2"], ["--n", "51", "--sampler", "tau", "--extra", "20"]]
)
def test_advice_names_options_of_the_command_line(arguments, tmp_path):
    """Not arguments of Python functions, nor options that there are not."""
    if arguments == [HARD]:
        random = np.random.default_rng(0)
        patterns = random.normal(size=(26, 40)) + random.normal(size=(26, 3)) @ random.normal(size=(3, 40))
        np.savez(tmp_path / "hard.npz", X=patterns, y=random.choice([-1, 1], 26))
        arguments = ["--patterns", str(tmp_path / "hard.npz")]
    done = invoke("sample", *arguments, "--out", str(tmp_path / "out"))
    printed = " ".join((done.stdout + done.stderr).split())
    assert any(word in printed for word in ("Try", "take", "run"))
    assert not re.findall(r"ss\.\w+|n_\w+|denoiser=|accuracy=|damping=|reference=|prediction=|exchange=", printed)
    known = " ".join(invoke("sample", "--help").stdout.split())
    assert all(option in known for option in re.findall(r"--[a-z]+", printed))


def test_chains_with_sweeps_at_the_end_judge_themselves(tmp_path, rng):
    """On data that theory says nothing about: some columns are larger than others."""
    patterns = rng.normal(size=(20, 61)) * (1 + np.arange(61) % 7)
    np.savez(tmp_path / "own.npz", X=patterns, y=rng.choice([-1, 1], 20))
    arguments = ["--patterns", str(tmp_path / "own.npz"), "--sampler", "tau", "--sweeps", "60", "--extra", "300"]
    done = invoke("sample", *arguments, "--out", str(tmp_path / "out"))
    assert done.exit_code == 0, done.stderr
    printed = " ".join(done.stdout.split())
    assert "a chain remembers" in printed
    assert any(words in printed for words in ("mixed: fair within 0.", "could hide a bias of 0."))
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report["mixing"]["lag"] == 150
    assert report["samples"] == 16 * 100
    again = invoke("sample", *arguments, "--exchange", "--out", str(tmp_path / "out"))
    assert again.exit_code == 0, again.stderr
    assert ss.Samples.load(tmp_path / "out" / "samples.npz").info.ladder is not None


@pytest.mark.parametrize(
    ("arguments", "usual"),
    [
        (["predict", "--no-thresholds"], ["prediction.png"]),
        (["phase", "--margins=0:0.1:2"], ["phase.csv", "phase.png"]),
        (["sample", "--n", "15", "--sampler", "exact"], ["report.json", "samples.npz", "samples.png"]),
        (["solve", "--n", "15"], ["report.json", "solutions.npz"]),
    ],
)
def test_out_is_a_folder_for_every_verb(arguments, usual, tmp_path):
    assert invoke(*arguments, "--out", str(tmp_path / "deep" / "er")).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == usual
    if "png" in usual[0]:
        assert invoke(*arguments, "--out", str(tmp_path / "new" / "mine.pdf")).exit_code == 0
        assert (tmp_path / "new" / "mine.pdf").read_bytes().startswith(b"%PDF")


def test_a_posterior_of_low_bit_weights_with_an_intercept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    how = ["--prior", "levels(-3,-1,1,3)", "--potential", "logistic(2)", "--intercept", "5", "--sampler", "tempering"]
    done = invoke("sample", *table(tmp_path, m=30, n=6), *how, "--samples", "4", "--sweeps", "50", "--extra", "40")
    assert done.exit_code == 0, done.stderr
    samples = ss.Samples.load(tmp_path / "samples.npz")
    assert samples.target == ss.Target("levels(-3,-1,1,3)", "logistic(2)")  # at T = 1
    assert samples.intercepts.shape == (len(samples),)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["problem"]["intercept"] == 5


def test_levels_are_enumerated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("sample", "--sampler", "exact", "--prior", "ternary(0.3)", "--potential", "logistic", "--n", "9")
    assert done.exit_code == 0, done.stderr
    assert "of 19683" in done.stdout
    done = invoke("sample", "--sampler", "exact", "--prior", "ternary", "--n", "15")
    assert done.exit_code == 2
    assert "at most 12" in done.stderr


def test_doctor_reports_versions_device_and_what_extras_lack(monkeypatch, tmp_path):
    monkeypatch.setenv("SOLSPACE_DATA", str(tmp_path))
    done = invoke("doctor", "--json")
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert report["versions"]["solspace"] == ss.__version__
    assert report["versions"]["numpy"] == np.__version__
    assert report["machine"]["cores"] >= 1
    assert report["extras"]["gpu"] == ([] if find_spec("cupy") else ["cupy-cuda12x"])
    assert report["data"]["digits"] == "scikit-learn"
    shown = invoke("doctor")
    assert shown.exit_code == 0
    assert "solspace[gpu]" in shown.stdout or find_spec("cupy")
