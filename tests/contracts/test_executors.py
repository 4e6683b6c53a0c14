"""One sweep, every executor, any interruption: the same rows."""

from __future__ import annotations

import dataclasses
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from distributed import Client, LocalCluster, get_worker
from killing import SPEC, children, comparable, driver, rows_in, wait_for

import solspace as ss
from solspace.experiments import cluster, device, executors, runner, tasks
from solspace.experiments.executors import EXECUTORS, RunConfig, processes
from solspace.experiments.tasks import Task, problem_of
from solspace.samplers.device import missing
from solspace.samplers.registry import SAMPLERS, DeviceMethod
from solspace.store import Result, Store

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("serial") / "runs.db"
    ss.sweep(ss.Spec(**SPEC), path, executor="serial")
    rows = comparable(path)
    assert len(rows) == 400
    assert {row[0] for row in rows.values()} == {"done", "failed"}
    return rows


@pytest.mark.slow
@linux
def test_killed_workers_cost_nothing(tmp_path: Path, reference: dict[str, Any]) -> None:
    path = tmp_path / "runs.db"
    process = driver(path, n_workers=2)
    for goal in (20, 150):
        wait_for(lambda: rows_in(path) >= goal, process)  # noqa: B023
        os.kill(children(process.pid)[-1], signal.SIGKILL)
    _, message = process.communicate()
    assert process.returncode == 0, message
    assert comparable(path) == reference


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path: Path, reference: dict[str, Any]) -> None:
    path = tmp_path / "runs.db"
    process = driver(path, n_workers=2)
    wait_for(lambda: rows_in(path) >= 20, process)
    process.send_signal(signal.SIGINT)
    _, message = process.communicate(timeout=20)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in message
    assert 20 <= rows_in(path) < 400
    results = ss.sweep(ss.Spec(**SPEC), path, executor="serial")
    assert results.status()["to do"] == 0
    assert comparable(path) == reference


@pytest.mark.parametrize("executor", EXECUTORS)
def test_every_executor_gives_the_serial_rows(tmp_path: Path, reference: dict[str, Any], executor: str) -> None:
    path = tmp_path / "runs.db"
    results = ss.sweep(ss.Spec(**{**SPEC, "instances": 5}), path, executor=executor, n_workers=2)
    rows = comparable(path)
    assert len(rows) == 20
    assert results.status()["to do"] == 0
    assert rows == {key: reference[key] for key in rows}


@contextmanager
def started(folder: Path, workers: int) -> Iterator[tuple[str, list[subprocess.Popen[bytes]], Callable[[], None]]]:
    """A real scheduler and real workers, each a process of its own, as on a cluster; and a way to start another."""
    file = folder / "scheduler.json"
    command = [sys.executable, "-m", "distributed.cli.dask_{}", "--no-dashboard", "--scheduler-file", str(file)]
    processes: list[subprocess.Popen[bytes]] = []

    def start(role: str, *options: str) -> None:
        line = [part.format(role) for part in command] + list(options)
        processes.append(subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def start_worker() -> None:
        start("worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder))

    try:
        start("scheduler", "--host", "127.0.0.1", "--port", "0")
        for _ in range(workers):
            start_worker()
        while not file.exists() or not file.read_text():
            assert processes[0].poll() is None
            time.sleep(0.05)
        yield json.loads(file.read_text())["address"], processes, start_worker
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_dask_worker_killed_in_the_middle(tmp_path: Path, reference: dict[str, Any]) -> None:
    path = tmp_path / "runs.db"
    with started(tmp_path, workers=2) as (address, processes, _):
        process = driver(path, "dask", scheduler=address)
        wait_for(lambda: rows_in(path) >= 20, process)
        processes[2].kill()
        _, message = process.communicate(timeout=90)
        assert process.returncode == 0, message
    assert comparable(path) == reference


@pytest.mark.slow
def test_a_dask_scheduler_killed_in_the_middle(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    with started(tmp_path, workers=1) as (address, processes, _):
        process = driver(path, "dask", scheduler=address)
        wait_for(lambda: rows_in(path) >= 10, process)
        processes[0].kill()
        _, message = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "run the same command again" in message
    assert 10 <= rows_in(path) < 400


@pytest.mark.slow
def test_dask_without_workers_says_so_and_goes_on_when_one_comes(tmp_path: Path, reference: dict[str, Any]) -> None:
    path = tmp_path / "runs.db"
    with started(tmp_path, workers=1) as (address, processes, start_worker):
        process = driver(path, "dask", scheduler=address)
        wait_for(lambda: rows_in(path) >= 10, process)
        processes[1].kill()
        words = next(line for line in process.stderr if "no Dask worker is connected" in line)  # type: ignore[union-attr]
        assert f"start some with: dask worker {address}. Ctrl-C ends; what is done is in the store" in words
        assert process.poll() is None
        start_worker()
        _, message = process.communicate(timeout=120)
        assert process.returncode == 0, message
    assert comparable(path) == reference


def test_a_deserted_local_cluster_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_GIVE_UP_AFTER", 0.0)
    deserted = SimpleNamespace(status="running", nthreads=dict, scheduler=SimpleNamespace(address="tls://here"))
    with pytest.raises(ConnectionError, match="Results so far are in the store: run the same command again"):
        cluster._Dask(deserted, (), local=True).receive()


@pytest.mark.slow  # the client of distributed 2024.8 may hang after the refusal that is provoked here
def test_the_local_cluster_takes_work_from_its_own_sweep_only() -> None:
    with cluster._local(1) as (address, key):
        assert address.startswith("tls://127.0.0.1:")
        with pytest.raises(TypeError, match="TLS expects a `ssl_context`"):
            Client(address, timeout="5s", set_as_default=False)
        with Client(address, timeout="30s", set_as_default=False, security=key) as client:
            assert client.submit(sum, [1, 2]).result() == 3


def test_a_failure_is_a_row_and_can_be_retried(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    spec = ss.Spec(n=9, alpha=3.0, sampler="exact", instances=4)

    def attempts() -> int:
        with Store(path) as store:
            return store._db.execute("SELECT COUNT(*) FROM results").fetchone()[0]

    results = ss.sweep(spec, path, executor="serial")
    assert results.status() == {"done": 0, "failed": 4, "to do": 0}
    assert all(row.error.startswith("ValueError: this instance") and not row.values for row in results.failed)
    ss.sweep(spec, path, executor="serial")
    assert attempts() == 4
    ss.sweep(spec, path, executor="serial", retry=True)
    assert attempts() == 8
    assert results.status() == {"done": 0, "failed": 4, "to do": 0}


def test_a_task_that_kills_its_workers_is_a_failed_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deadly = f"""
        import os, signal
        if os.getpid() != {os.getpid()}:
            os.kill(os.getpid(), signal.SIGKILL)
    """
    (tmp_path / "deadly.py").write_text(textwrap.dedent(deadly))
    monkeypatch.syspath_prepend(tmp_path)
    good = ss.Spec(n=9, alpha=0.3, sampler="exact", instances=6)
    bad = ss.Spec(n=9, alpha=0.3, sampler="exact", instances=1, modules=["deadly"])
    results = ss.sweep([bad, good], tmp_path / "runs.db", n_workers=2)
    assert results.status()["to do"] == 0
    (failure,) = [row for row in results.failed if "modules" in row.task]
    assert "ended 3 worker processes" in failure.error
    assert "SIGKILL" in failure.error


def test_executors_take_no_more_tasks_than_they_keep_busy() -> None:
    """A million tasks, ten results: memory cannot grow with the number of tasks."""
    taken = 0

    def counted() -> Iterator[Task]:
        nonlocal taken
        for task in ss.Spec(n=5, alpha=0.4, sampler="exact", instances=10**6).tasks():
            taken += 1
            yield task

    for name, most in (("serial", 10), ("processes", 14)):
        taken = 0
        stream = EXECUTORS[name](counted(), (), RunConfig(n_workers=2))
        results = 0
        while results < 10:
            results += len(next(stream))
        stream.close()  # type: ignore[attr-defined]
        assert taken <= most


def test_results_depend_on_the_spec_alone() -> None:
    first = ss.Spec(n=9, alpha=[0.3, 0.4], sampler="exact")
    second = ss.Spec(n=[7, 9], alpha=0.4, sampler="exact", name="other")
    shared = {task.key for task in first.tasks()} & {task.key for task in second.tasks()}
    assert len(shared) == 1
    other = next(ss.Spec(n=9, alpha=0.4, sampler="exact", seed=1).tasks())
    assert other.key not in shared


def test_samplers_and_targets_are_compared_on_the_same_problems() -> None:
    spec = ss.Spec(n=9, alpha=0.4, sampler="exact", temperature=[0.5, 1.0], instances=2)
    first, second, third, _ = (problem_of(task).patterns for task in spec.tasks())
    np.testing.assert_array_equal(first, second)
    assert (first != third).any()


def test_workers_of_another_version_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "results_version", lambda values: "of this process")
    with pytest.raises(ChildProcessError, match="another version of solspace"):
        ss.sweep(ss.Spec(n=5, alpha=0.4, sampler="exact"), tmp_path / "runs.db", n_workers=1)
    task = Task({"kind": "sample", "sampler": "exact", "n": 3})
    assert task.key
    assert "key" not in vars(pickle.loads(pickle.dumps(task)))


@pytest.mark.parametrize("share", [1, 2])
def test_tasks_share_a_device(
    share: int, tmp_path: Path, reference: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packed by shape, drawn many at a time, one bad task among them, all or every second beside processes: the same rows."""
    drawn: list[set[tuple[int, int]]] = []
    exact = SAMPLERS["exact"]

    def run_batches(batches: Any, start: Any, total: int) -> Iterator[tuple[Any, Any]]:
        assert total == 2 * 40 // share
        for number, batch in enumerate(batches):
            problems = [problem for problem, _ in batch.draw()]
            drawn.append({(problem.n, problem.m) for problem in problems})
            assert len(problems) <= 15
            samples = [exact.draw(problem, batch.n_samples, seed) for problem, seed in zip(problems, batch.seeds)]
            yield batch, ValueError("a batch that fails") if number == 1 else batch.finish(problems, samples)

    method = DeviceMethod("exact", lambda *run: None, most=15)  # type: ignore[arg-type, return-value]
    monkeypatch.setitem(SAMPLERS, "exact", dataclasses.replace(exact, method=lambda options: method))
    monkeypatch.setattr(device, "run_batches", run_batches)
    monkeypatch.setattr(runner, "packs", lambda task: task.values["instance"] % share == 0)
    path = tmp_path / "runs.db"
    ss.sweep(ss.Spec(**{**SPEC, "instances": 10}), path)
    rows = comparable(path)
    assert len(rows) == 40
    assert rows == {key: reference[key] for key in rows}
    assert all(len(shapes) == 1 for shapes in drawn)
    assert [n * m for ((n, m),) in drawn] == sorted((n * m for ((n, m),) in drawn), reverse=True)


def test_the_device_is_no_part_of_a_result_that_is_the_same_on_all() -> None:
    (plain,) = ss.Spec(n=9, alpha=0.3, sampler={"name": "tau", "n_sweeps": 9}).tasks()
    (gpu,) = ss.Spec(n=9, alpha=0.3, sampler={"name": "tau", "n_sweeps": 9, "device": "gpu"}).tasks()
    assert (plain.key, plain.seed) == (gpu.key, gpu.seed)
    assert gpu.values["options"]["device"] == "gpu"
    (cpu,) = ss.Spec(n=9, alpha=0.3, sampler="asl").tasks()
    (other,) = ss.Spec(n=9, alpha=0.3, sampler="asl").with_options(device="gpu").tasks()
    assert cpu.key != other.key


CARDS = {"n": 21, "alpha": [0.3, 0.5], "instances": 3, "sampler": {"name": "tau", "n_sweeps": 3}}


def comparable_values(path: Path) -> dict[str, Any]:
    return {key: (status, values) for key, (status, _, values, *_) in comparable(path).items()}


@pytest.mark.gpu
@pytest.mark.skipif(bool(missing()), reason="no CUDA device with CuPy")
def test_two_dask_workers_share_one_card(tmp_path: Path) -> None:
    spec = ss.Spec(**{**CARDS, "n": [101, 501], "instances": 200})
    ss.sweep(spec, tmp_path / "serial.db", executor="serial")
    ss.sweep(spec.with_options(device="gpu"), tmp_path / "dask.db", executor="dask", n_workers=2)
    rows = comparable_values(tmp_path / "dask.db")
    assert len(rows) == 800
    assert rows == comparable_values(tmp_path / "serial.db")


def test_workers_that_share_a_card_share_its_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers of one process, whose card is emulated: both take batches, and rows are those of the processor."""
    tasks, used = list(ss.Spec(n=9, alpha=[0.3, 0.5], instances=8, sampler="exact").tasks()), set()

    def on_card(tasks: list[Task]) -> Iterator[list[Result]]:
        used.add((get_worker().name, os.environ["CUDA_VISIBLE_DEVICES"]))
        time.sleep(0.05)
        yield [executors.run(task) for task in tasks]

    @contextmanager
    def client(count: int, scheduler: str | None) -> Iterator[Client]:
        local = {"n_workers": count, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
        with LocalCluster(**local) as own, Client(own) as one:
            yield one

    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    monkeypatch.setattr(cluster, "on_device", on_card)
    monkeypatch.setattr(cluster, "_client", client)
    monkeypatch.setattr(cluster, "CARDS", cluster.CARDS._replace(size=2, largest=2))
    monkeypatch.setattr("solspace.samplers.device.missing", lambda: "")
    found = [one for batch in cluster.dask([], tasks, RunConfig(executor="dask", n_workers=2)) for one in batch]
    assert used == {(0, "7"), (1, "7")}
    assert {one.key: one.values for one in found} == {task.key: executors.run(task).values for task in tasks}
    assert len(found) == len(tasks)


def test_local_workers_take_the_cards_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
    monkeypatch.setattr("solspace.samplers.device.missing", lambda: "")
    taken = {}
    for n_workers in (None, 3):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,5")
        cards = cluster.local_cards(n_workers)
        for worker in range(3):
            taken[n_workers, worker] = cluster.visible_card(cards, SimpleNamespace(name=worker))
    assert list(taken.values()) == ["2", "5", "", "2", "5", "2"]


def test_tasks_of_a_card_that_is_gone_go_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """In halves, since one task of the batch may have ended its worker; a task that ends three is a failed result."""
    sent: list[tuple[int, list[str]]] = []

    class Cluster:
        status = "running"

        def nthreads(self) -> dict[str, int]:
            return {f"worker {len(sent)}": 1}

        def run(self, function: Any, cards: Any) -> dict[str, str]:
            return dict.fromkeys(self.nthreads(), "0")

        def submit(self, run: Any, batch: list[Task], cards: Any, workers: list[str], **more: Any) -> Any:
            sent.append((len(batch), workers))
            return SimpleNamespace(key=len(sent), add_done_callback=lambda put: None, cancel=lambda: None)

    stream = cluster._Dask(Cluster(), (), local=False)
    stream.submit(list(ss.Spec(**CARDS).tasks())[:2], cluster.CARDS)
    while not stream.failed:
        stream._check()
    assert [count for count, _ in sent[:3]] == [2, 1, 1]
    assert sent[0][1] == ["worker 0"]
    assert "ended 3 worker processes" in stream.failed[0].error


def test_bad_calls(tmp_path: Path) -> None:
    spec = ss.Spec(n=5, alpha=0.4, sampler="exact")
    with pytest.raises(ValueError, match="unknown executor 'proceses': did you mean 'processes'"):
        ss.sweep(spec, tmp_path / "runs.db", executor="proceses")
    with pytest.raises(ValueError, match="scheduler belongs to executor 'dask'"):
        ss.sweep(spec, tmp_path / "runs.db", scheduler="tcp://127.0.0.1:1")
    with pytest.raises(ValueError, match="spec must be a Spec"):
        ss.sweep(5, tmp_path / "runs.db")  # type: ignore[arg-type]


def _until(made: list[Result], count: int) -> Iterator[list[Result]]:
    """Yield nothing, again and again, until so many were `made`; then a result."""
    begun = time.monotonic()
    while len(made) < count and time.monotonic() - begun < 120:
        time.sleep(0.01)
        yield []
    yield [Result("own", {})]


@pytest.mark.slow
def test_processes_work_while_this_process_does(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, made = list(ss.Spec(**{**SPEC, "instances": 1}).tasks())[:5], list[Result]()
    monkeypatch.setattr(executors, "on_device", lambda tasks, n_workers: _until(made, 3))
    for found in processes(iter(tasks), (), RunConfig(n_workers=2)):
        made += found
    keys = [result.key for result in made]
    assert sorted(keys) == sorted(["own", *(task.key for task in tasks)])
    assert keys.index("own") >= 3


@pytest.mark.slow
def test_what_processes_made_is_not_lost_when_this_process_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks, made = list(ss.Spec(**{**SPEC, "instances": 1}).tasks())[:3], list[Result]()

    def failing(tasks: object, n_workers: int) -> Iterator[list[Result]]:
        yield from _until(made, 1)
        time.sleep(1.0)  # the others are made meanwhile
        raise KeyboardInterrupt

    monkeypatch.setattr(executors, "on_device", failing)

    def keep() -> None:
        for found in processes(iter(tasks), (), RunConfig(n_workers=2)):
            made.extend(found)

    with pytest.raises(KeyboardInterrupt):
        keep()
    assert {task.key for task in tasks} < {result.key for result in made}
