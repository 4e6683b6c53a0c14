"""New processes: forked from one that has sampled, with nothing compiled yet, or with compilation switched off."""

import os
import re
import subprocess
import sys

import pytest


def python(code, folder, *options, **environment):
    """Run `code` in a new process, which fails after some minutes rather than hang."""
    return subprocess.run(
        [sys.executable, *options, "-c", code], cwd=folder,
        capture_output=True, text=True, timeout=400, check=False, env=os.environ | environment,
    )  # fmt: skip


FORKED = """
import multiprocessing, os, sys
import solspace as ss

problem = ss.Perceptron.random(n=101, alpha=0.3, rng=0)
real = ss.Perceptron.random(n=101, alpha=0.3, patterns="gaussian", rng=0)
spec = ss.Spec(n=31, alpha=0.3, sampler={"name": "tau", "n_sweeps": 20}, n_samples=2)
calls = {
    "localize": lambda: ss.localize(problem, 4, rng=1).weights.sum(),
    "anneal": lambda: ss.anneal(problem, 4, 51, rng=1).weights.sum(),
    "anneal, real patterns": lambda: ss.anneal(real, 4, 51, rng=1).weights.sum(),
    "exchange": lambda: ss.anneal(problem, 2, 51, n_extra=20, exchange=True, rng=1).weights.sum(),
    "tau": lambda: ss.solve(problem, rng=0, method="tau").weights.sum(),
    "reinforce": lambda: ss.solve(problem, rng=0, method="reinforce").weights.sum(),
    "ep": lambda: ss.ep(problem).mean.sum(),
    "sweep": lambda: len(ss.sweep(spec, f"{os.getpid()}.db", "serial")),
    "sweep, processes": lambda: len(ss.sweep(spec, f"{os.getpid()}p.db", "processes", n_workers=1)),
}
fork = multiprocessing.get_context("fork")
parents = {name: call() for name, call in calls.items()}
for name, call in calls.items():
    child = fork.Process(target=lambda: sys.exit(int(call() != parents[name])))
    child.start()
    child.join(60)
    child.kill()
    print(name, child.exitcode)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_samples_as_its_parent_did(tmp_path):
    result = python(FORKED, tmp_path, "-W", "ignore")
    assert result.returncode == 0, result.stderr
    ended = dict(line.rsplit(" ", 1) for line in result.stdout.splitlines())
    assert len(ended) == 9
    assert set(ended.values()) == {"0"}, ended


COMPILING = """
import multiprocessing, threading, time
from solspace.system.compiled import njit, watchers

begun = threading.Event()

def wait(compiling):
    begun.set()
    time.sleep(0.5)

watchers.append(wait)
thread = threading.Thread(target=lambda: njit()(lambda x: 2 * x)(1))
thread.start()
begun.wait()
child = multiprocessing.get_context("fork").Process(target=lambda: njit()(lambda x: 3 * x)(1))
child.start()
child.join(60)
child.kill()
print(child.exitcode)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_compiles_that_was_forked_while_a_thread_did(tmp_path):
    result = python(COMPILING, tmp_path, "-W", "ignore")
    assert result.stdout == "0\n", result.stderr


@pytest.mark.slow
def test_compilation_is_announced_and_does_not_count_against_a_time_limit(tmp_path):
    code = """
import solspace as ss
problem = ss.Perceptron.random(n=301, alpha=0.4, rng=0)
found = ss.solve(problem, method="tau", time_limit=1, rng=0, progress=True)
assert found.solved.all(), found.info
assert found.info.seconds < found.info.wall_time - 1
"""
    fresh = {"NUMBA_CACHE_DIR": str(tmp_path), "TTY_COMPATIBLE": "1", "COLUMNS": "120"}
    first = python(code, tmp_path, "-W", "error", **fresh)
    assert first.returncode == 0, first.stderr
    assert "compiling" in first.stderr


UNCOMPILED = """
import solspace as ss
problem = ss.Perceptron.random(n=31, alpha=0.3, rng=0)
for call in (lambda: ss.localize(problem, 2), lambda: ss.anneal(problem, 2, 11), lambda: ss.solve(problem)):
    try:
        call()
    except RuntimeError as error:
        print(error)
assert 0 < ss.predict(ss.Target(potential="uniform"), 0.3).overlap < 1
"""


def test_samplers_say_that_they_need_compilation_and_theory_does_without(tmp_path):
    result = python(UNCOMPILED, tmp_path, NUMBA_DISABLE_JIT="1")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("NUMBA_DISABLE_JIT") == len(result.stdout.splitlines()) == 3


def test_the_command_line_says_it_in_one_line(tmp_path):
    result = subprocess.run(
        [sys.executable, "-m", "solspace", "solve", "--n", "51", "--out", str(tmp_path)],
        capture_output=True, text=True, timeout=400, check=False, env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert result.returncode == 2
    assert re.fullmatch(r"solspace: .*NUMBA_DISABLE_JIT.*\n", result.stderr)
