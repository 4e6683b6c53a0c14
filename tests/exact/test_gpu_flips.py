"""Chains of the compiled kernels equal the NumPy twin bit for bit.

Numba's; the CUDA sources, run thread by thread on the processor; and CUDA's own, where there is a device.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
import threading

import emulated_cupy
import flips_twin
import numpy as np
import pytest
import terminal
from distributed import LocalCluster

import solspace as ss
from solspace.experiments import device as experiments_device
from solspace.experiments.images import ImageSpec
from solspace.experiments.runner import RunConfig
from solspace.experiments.runner import run_tasks as running_tasks
from solspace.numerics.streams import seed_sequence
from solspace.samplers import device
from solspace.samplers.annealing import batches
from solspace.samplers.annealing import chains as running
from solspace.samplers.annealing.anneal import AnnealConfig, anneal, first_solutions
from solspace.samplers.annealing.batches import Batch, Shape, run_batches
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.gpu_flips import GpuIntegerFlips, GpuRealFlips, IntegerLayout, RealLayout
from solspace.samplers.annealing.real_forms import is_linear, is_power
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.kernels import cuda
from solspace.samplers.kernels.philox import site_orders
from solspace.samplers.marginals import gpu_problem
from solspace.samplers.registry import SAMPLERS
from solspace.store import Store

LOG, BAND = ss.Target(temperature=0.5), ss.Target(potential="band(1.5)")
WALLS = {
    "log_band": ss.Target(potential="log_band(1.2, -0.2)", temperature=0.7),
    "wall above": ss.Target(potential=ss.potentials.wall(None, 0.6), temperature=0.5),
    "walls beside zero": ss.Target(potential=ss.potentials.wall(-0.7, 1.9), temperature=0.5),
}
CASES = {
    "tau": ("binary", LOG, 8, "tau", "sample", 4),
    "tau solved": ("binary", LOG, 25, "tau", "solve", 0),
    "even n with a margin": ("binary", ss.Target(temperature=0.7, margin=0.3), 6, "tau", "sample", 0),
    "temperature": ("binary", ss.Target(potential="hinge"), 6, "temperature", "sample", 2),
    "band": ("binary", BAND, None, [BAND] * 5, "sample", 2),
    "real tau": ("gaussian", LOG, 8, "tau", "sample", 4),
    "real tau solved": ("gaussian", LOG, 25, "tau", "solve", 0),
    "real temperature": ("gaussian", ss.Target(potential="errors", margin=0.1), 6, "temperature", "sample", 2),
    "real hinge solved": ("gaussian", ss.Target(potential="hinge"), 25, "temperature", "solve", 0),
    "real band": ("gaussian", BAND, None, [BAND] * 5, "sample", 2),
    "log_band tau": ("binary", WALLS["log_band"], 6, "tau", "sample", 2),
    **{f"real {name} tau": ("gaussian", target, 6, "tau", "sample", 0) for name, target in WALLS.items()},
}
CHAINS, SEED = 3, 7
START = SAMPLERS["tau"].method(AnnealConfig()).start


@pytest.fixture(params=CASES)
def case(request):
    patterns, target, sweeps, schedule, mode, extra = CASES[request.param]
    n = 30 if request.param.startswith("even") else 31
    problem = ss.Perceptron.random(n=n, alpha=0.4, patterns=patterns, target=target, rng=3)
    plan = Plan.of(stages_of(schedule, target, sweeps)[1], extra, 2, solve=mode == "solve")
    options = {"n_sweeps": sweeps, "schedule": schedule, "rng": SEED}
    if mode == "sample":
        options |= {"n_extra": extra, "thin": 2}
    return problem, plan, options


def key_of(seed):
    return int(seed_sequence(seed).generate_state(1, np.uint64)[0])


def check_against_twin(problem, plan, weights, accepted, energy, solved_at):
    twin = flips_twin.run(problem, plan, key_of(SEED), CHAINS)
    np.testing.assert_array_equal(weights, twin[0])
    np.testing.assert_array_equal(accepted, twin[1])
    np.testing.assert_array_equal(energy, twin[2])
    np.testing.assert_array_equal(solved_at, twin[3])


def walk(problem, plan, layout, field=None):
    kind = GpuIntegerFlips if problem.has_binary_patterns else GpuRealFlips
    flips = kind([problem], plan, [key_of(SEED)], CHAINS, layout=layout)
    chains = Chains.start(flips.first_weights(), plan, field)
    running.run_to_end(running.Run(flips, chains, plan))
    return chains, flips


def layouts(problem, plan, warps):
    if problem.has_binary_patterns:
        size = problem.n + 3
        return IntegerLayout.of(problem.m, size, warps, group=2 if warps == 1 else 1, batch=1 if warps == 1 else 4)
    power, linear = (all(map(is_kind, plan.stages)) for is_kind in (is_power, is_linear))
    return RealLayout.of(problem.m, power, warps, linear=linear)


def test_numba_makes_the_chains_of_the_twin(case):
    problem, plan, options = case
    info = (first_solutions if plan.solve else anneal)(problem, CHAINS, progress=False, **options)
    weights = info.weights if plan.solve else info.weights.reshape(CHAINS, -1, problem.n)[:, -1]
    done = np.isfinite(info.info["energy"])
    accepted = np.where(done, np.rint(np.nan_to_num(info.info["acceptance"]) * problem.n), 0)
    check_against_twin(problem, plan, weights, accepted, info.info["energy"], info.info["solved_at"])


def forget_kernels():
    cuda.kernel.cache_clear()
    cuda.module.cache_clear()
    device._stream_type.cache_clear()
    device.idle_streams.clear()


@pytest.fixture
def emulated(monkeypatch):
    if shutil.which("g++") is None or sys.platform != "linux":
        pytest.skip("the emulation of CUDA compiles with g++ on Linux")
    monkeypatch.setitem(sys.modules, "cupy", emulated_cupy)
    monkeypatch.setattr(device, "missing", lambda: "")
    monkeypatch.setattr(gpu_problem, "_blas", lambda: None)
    forget_kernels()
    yield
    forget_kernels()


@pytest.mark.parametrize("warps", [1, 2])
def test_cuda_sources_make_the_chains_of_the_twin(case, emulated, warps):
    problem, plan, _ = case
    if warps == 2 and (plan.solve or plan.n_draws > 3):
        pytest.skip("one case of each kind is enough here")
    chains, flips = walk(problem, plan, layouts(problem, plan, warps))
    check_against_twin(problem, plan, chains.weights, chains.accepted, chains.energy, chains.solved_at)
    if problem.has_binary_patterns:
        np.testing.assert_array_equal(flips.stabilities(chains.weights), problem.stabilities(chains.weights))


@pytest.mark.exhaustive
def test_layouts_that_a_device_may_prefer_make_the_same_chains(emulated):
    """Several proposals at a time in one warp, columns of two words and by way of shared memory one at a time, several
    chains of real-valued patterns to a block, and columns that are loaded ahead."""
    for patterns, m, layout in (
        ("binary", 12, IntegerLayout.of(12, 34, 1, group=2, batch=2)),
        ("binary", 12, IntegerLayout.of(12, 34, 2, batch=1)),
        ("binary", 1050, IntegerLayout.of(1050, 34, 1, group=2, batch=1)),
        ("binary", 1050, IntegerLayout.of(1050, 34, 1, group=2, batch=2)),
        ("gaussian", 12, RealLayout.of(12, True, 1, group=2, resident=3)),
        ("gaussian", 150, dataclasses.replace(RealLayout.of(150, True, 1, group=2), own=True)),
        ("gaussian", 150, dataclasses.replace(RealLayout.of(150, True, 2), own=True)),
    ):
        problem = ss.Perceptron.random(n=31, alpha=m / 31, patterns=patterns, target=LOG, rng=3)
        assert problem.m == m
        plan = Plan.of(stages_of("tau", LOG, 8)[1], 0, 1, solve=False)
        chains, _ = walk(problem, plan, layout)
        check_against_twin(problem, plan, chains.weights, chains.accepted, chains.energy, chains.solved_at)


@pytest.mark.parametrize("count", [1, 24, 25, 26, 60])
def test_what_is_sent_arrives_whatever_fits_into_a_buffer(emulated, monkeypatch, count):
    monkeypatch.setattr(device, "_BUFFER", 100)
    monkeypatch.setattr(device, "_SMALL", 40)
    arrays = [np.arange(count, dtype=np.int32) + 1000 * k for k in range(3)]
    np.testing.assert_array_equal(device.sent_together(arrays), arrays)
    for array in (*arrays, np.zeros((0, 3)), np.arange(20.0).reshape(4, 5).T):
        there = device.sent(array)
        assert there.dtype == array.dtype
        np.testing.assert_array_equal(there, array)


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("n", [1, 2, 3, 31, 32, 33, 127, 128, 129, 300, 2001])
def test_sites_come_in_the_order_of_the_processor(emulated, n, inside):
    """Lanes exchange sites at once up to the first that meets another: where sites are few, many do."""
    length, keys = 64 * -(-n // 64), np.array([5, 1 << 60], np.uint64)
    orders = emulated_cupy.empty((len(keys), 3, length), np.int32)
    sizes = map(np.int32, (n, 7, length, inside))
    shuffle = cuda.kernel("chains", "site_orders")
    shuffle((3, len(keys)), (32,), (device.sent(keys), *sizes, orders), shared_mem=4 * n)
    for key, found in zip(keys, orders):
        wanted = np.empty((3, n), np.int32)
        site_orders(key, 7, wanted)
        np.testing.assert_array_equal(found[:, :n], wanted)
        assert not found[:, n:].any()


def batch_of(problem, seed, draw=None, **more):
    shape = Shape(problem.n, problem.m, True, problem.target)
    return Batch(
        "tau", shape, 1, AnnealConfig(n_sweeps=3), [seed], draw or (lambda: [(problem, None)]), tag=seed, **more
    )


def test_a_batch_that_is_drawn_late_does_not_hold_up_others(emulated):
    problems = [ss.Perceptron.random(n=31, alpha=0.4, target=LOG, rng=seed) for seed in range(2)]
    others = threading.Event()

    def late():
        assert others.wait(120)
        return [(problems[0], None)]

    waiting = [
        batch_of(problems[0], 1, late),
        batch_of(problems[1], 2, finish=lambda problems, samples: others.set() or samples),
    ]
    found = [(batch.tag, len(samples)) for batch, samples in run_batches(waiting, START)]
    assert found == [(2, 1), (1, 1)]


def test_batches_that_were_done_are_handed_over_before_an_interrupt(emulated):
    problem = ss.Perceptron.random(n=31, alpha=0.4, target=LOG, rng=0)
    flow = run_batches([batch_of(problem, seed) for seed in range(3)], START)
    taken = [next(flow)[0].tag]
    for thread in threading.enumerate():
        if thread.name == "batches":
            thread.join(60)  # all is done then
    taken.append(flow.throw(KeyboardInterrupt)[0].tag)
    taken.append(next(flow)[0].tag)
    assert sorted(taken) == [0, 1, 2]
    with pytest.raises(KeyboardInterrupt):
        next(flow)


def test_a_batch_makes_the_chains_of_single_calls(emulated):
    problems = [ss.Perceptron.random(n=31, alpha=0.5 if seed < 2 else 0.4, target=LOG, rng=seed) for seed in range(3)]
    together = anneal(problems, 2, 4, rng=[5, 6, 7], device="gpu", progress=False)
    for problem, seed, samples in zip(problems, (5, 6, 7), together):
        alone = anneal(problem, 2, 4, rng=seed, progress=False)
        np.testing.assert_array_equal(samples.weights, alone.weights)
        np.testing.assert_array_equal(samples.info["energy"], alone.info["energy"])


def test_a_sweep_on_a_device_writes_the_rows_of_one_without(emulated, tmp_path):
    grid = {"n": 21, "alpha": [0.3, 0.5], "instances": 3, "keep": ["weights", "stabilities"]}
    sampler = [{"name": "tau", "n_sweeps": [3, 4]}, {"name": "temperature", "n_sweeps": 3}]
    spec = ss.Spec(**grid, sampler=sampler)
    rows = [
        {row.key: row for row in ss.sweep(one, tmp_path / f"{name}.db", "serial").rows(arrays=True)}
        for name, one in (("gpu", spec.with_options(device="gpu")), ("cpu", spec))
    ]
    assert len(rows[0]) == 18
    for key, row in rows[0].items():
        assert row.values == rows[1][key].values
        for name in ("weights", "stabilities"):
            np.testing.assert_array_equal(row.arrays[name], rows[1][key].arrays[name])
    assert ss.sweep(spec, tmp_path / "gpu.db", "serial").status() == {"done": 18, "failed": 0, "to do": 0}


def test_dask_workers_drive_the_card_that_they_share(emulated, tmp_path):
    """Two workers, here threads of this process, with tasks for a card and others: the rows of the serial executor."""
    specs = [
        ss.Spec(n=21, alpha=[0.3, 0.5], instances=3, sampler={"name": "tau", "n_sweeps": 3}),
        ss.Spec(n=9, alpha=0.3, sampler="exact", instances=3),
    ]
    on_gpu = [specs[0].with_options(device="gpu"), specs[1]]
    local = {"processes": False, "protocol": "inproc://", "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, threads_per_worker=1, **local) as cluster:
        there = ss.sweep(on_gpu, tmp_path / "dask.db", "dask", scheduler=cluster.scheduler_address)
        rows = {row.key: (row.status, row.values) for row in there.rows(status=None)}
    here = ss.sweep(specs, tmp_path / "serial.db", "serial")
    assert len(rows) == 9
    assert rows == {row.key: (row.status, row.values) for row in here.rows(status=None)}


@pytest.mark.exhaustive
def test_images_on_a_device_make_the_rows_of_one_without(emulated, tmp_path, monkeypatch):
    """Many tasks to a launch, patterns drawn once for all methods, batches of any size: what each task keeps is the same."""
    drawn = []
    monkeypatch.setattr(
        experiments_device,
        "_problem",
        lambda task, usual=experiments_device._problem: drawn.append(task) or usual(task),
    )
    specs = [
        ImageSpec("digits", (0.2,), (3,), instances=3),
        ImageSpec("digits", (0.4,), (2,), features=(33,), methods=("tau",), instances=2),
        ImageSpec("digits", (0.2,), (3,), methods=("tau",), kind="mixing", n_samples=3, options=(("n_extra", 20),)),
        ImageSpec(
            "digits", (0.2,), (9,), methods=("tau",), kind="mixing", n_samples=3,
            options=(("exchange", True), ("n_extra", 20)),
        ),
    ]  # fmt: skip
    rows = []
    usual = {name: SAMPLERS[name] for name in ("tau", "temperature")}
    for chains, device_name in ((2048, "gpu"), (2, "gpu"), (0, None)):
        for name, sampler in usual.items():

            def method(options, sampler=sampler, chains=chains):
                return dataclasses.replace(sampler.method(options), most=min(chains, sampler.method(options).most))

            monkeypatch.setitem(SAMPLERS, name, dataclasses.replace(sampler, method=method))
        tasks = [
            task for spec in specs for task in (spec.with_options(device=device_name) if device_name else spec).tasks()
        ]
        assert all(map(experiments_device.packs, tasks)) == (device_name is not None)
        path = tmp_path / f"{chains}.db"
        assert running_tasks(lambda tasks=tasks: tasks, path, RunConfig(executor="serial")).failed == 0
        with Store(path) as store:
            found = list(store.rows())
        rows.append({row.key: row.values for row in found})
        assert all(row.seconds > 0 for row in found if "sampler" in row.task)
        if chains == 2048:
            assert len(drawn) == 3 + 2 + 1
    assert len(rows[2]) == 3 * 3 + 2 + 1 + 1
    assert rows[0] == rows[1] == rows[2]
    assert sum("accuracy" in values for values in rows[0].values()) == 9


class Interrupted(Exception):
    pass


def test_patterns_are_drawn_once_for_all_samplers_where_few_are_kept(emulated, tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        experiments_device,
        "_problem",
        lambda task, usual=experiments_device._problem: drawn.append(task) or usual(task),
    )
    spec = ImageSpec("digits", (0.2, 0.4), (3,), instances=3).with_options(device="gpu")
    tasks = list(spec.tasks())
    monkeypatch.setattr(experiments_device, "_room", lambda: max(map(experiments_device._bytes, tasks)))
    assert running_tasks(lambda: tasks, tmp_path / "runs.db", RunConfig(executor="serial")).failed == 0
    assert (len(tasks), len(drawn)) == (18, 6)


def test_a_run_interrupted_on_a_device_goes_on_anywhere(emulated, monkeypatch, tmp_path):
    problem = ss.Perceptron.random(n=31, alpha=0.4, target=LOG, rng=3)
    monkeypatch.setattr(running, "BEAT", 1e-9)

    def stop(chains):
        if chains.sweep == 3:
            raise Interrupted

    options = {"n_chains": 2, "n_sweeps": 6, "rng": 1, "progress": False, "checkpoint": tmp_path / "run.npz"}
    with pytest.raises(Interrupted):
        anneal(problem, device="gpu", callback=stop, **options)
    whole = anneal(problem, **{**options, "checkpoint": None})
    for device_name in ("gpu", "cpu"):
        (tmp_path / "kept.npz").write_bytes((tmp_path / "run.npz").read_bytes())
        resumed = anneal(problem, device=device_name, **{**options, "checkpoint": tmp_path / "kept.npz"})
        np.testing.assert_array_equal(resumed.weights, whole.weights)
        np.testing.assert_array_equal(resumed.info["energy"], whole.info["energy"])


@pytest.mark.parametrize("launches", [1, 9, 30])
def test_a_device_lost_in_a_sweep_is_a_sentence_and_the_rest_goes_on(emulated, monkeypatch, tmp_path, capfd, launches):
    """Nothing of what was done is lost, no row is a failure, and CuPy is not mentioned."""
    monkeypatch.setattr(batches, "CHAINS", 1)  # one batch after another
    monkeypatch.setattr(batches, "_PREPARED", 1)
    spec, store = tmp_path / "spec.toml", tmp_path / "runs.db"
    spec.write_text(
        'n = 21\nalpha = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7]\ninstances = 2\nsampler = {name = "tau", n_sweeps = 3, device = "gpu"}\n'
    )
    words = ("sweep", str(spec), "--store", str(store))
    with emulated_cupy.failing(launches):
        ended = terminal.invoke(*words)
    assert ended.exit_code == 1
    assert "the GPU stopped answering" in ended.stderr
    assert "the same command goes on" in ended.stderr
    printed = ended.stdout + ended.stderr + "".join(capfd.readouterr())
    assert not any(word in printed for word in ("Traceback", "_foreign_stream_ref", "ignored", "cupy"))
    with Store(store) as results:
        before = results.count()
    assert before["failed"] == 0
    assert before["done"] >= (4 if launches == 30 else 0)
    assert terminal.invoke(*words).exit_code == 0
    with Store(store) as results:
        there = {row.key: row.values for row in results.rows()}
    ss.sweep(ss.Spec.from_toml(spec).with_options(device="cpu"), tmp_path / "cpu.db", "serial")
    with Store(tmp_path / "cpu.db") as results:
        assert there == {row.key: row.values for row in results.rows()}


def test_a_sweep_stopped_on_a_device_keeps_what_was_done_and_goes_on(emulated, monkeypatch, tmp_path, capfd):
    monkeypatch.setattr(batches, "CHAINS", 1)
    seen = []

    def collect(run, beat=0.0, usual=running.Run.collect):
        seen.append(run)
        if len(seen) == 4:
            raise KeyboardInterrupt
        return usual(run, beat)

    spec, store = tmp_path / "spec.toml", tmp_path / "runs.db"
    spec.write_text('n = 21\nalpha = [0.2, 0.3, 0.4, 0.5]\nsampler = {name = "tau", n_sweeps = 3, device = "gpu"}\n')
    with monkeypatch.context() as interrupted:
        interrupted.setattr(running.Run, "collect", collect)
        ended = terminal.invoke("sweep", str(spec), "--store", str(store))
    assert ended.exit_code == 130
    assert "stopped" in ended.stderr
    assert "Traceback" not in ended.stderr + "".join(capfd.readouterr())
    with Store(store) as results:
        assert 1 <= results.count()["done"] <= 3
    assert terminal.invoke("sweep", str(spec), "--store", str(store)).exit_code == 0
    with Store(store) as results:
        assert results.count() == {"done": 4, "failed": 0}


def test_a_device_lost_in_a_run_leaves_its_checkpoint(emulated, monkeypatch, tmp_path):
    problem = ss.Perceptron.random(n=31, alpha=0.4, target=LOG, rng=3)
    monkeypatch.setattr(running, "BEAT", 1e-9)
    options = {"n_chains": 2, "n_sweeps": 6, "rng": 1, "progress": False}
    with emulated_cupy.failing(10), pytest.raises(device.LostDevice, match=r"illegal memory access.*What was computed"):
        anneal(problem, device="gpu", checkpoint=tmp_path / "run.npz", **options)
    resumed = anneal(problem, checkpoint=tmp_path / "run.npz", **options)
    np.testing.assert_array_equal(resumed.weights, anneal(problem, **options).weights)


@pytest.mark.gpu
@pytest.mark.skipif(bool(device.missing()), reason="no CUDA device with CuPy")
@pytest.mark.parametrize("warps", [1, 2, 4])
def test_a_device_makes_the_chains_of_the_twin(case, warps):
    problem, plan, _ = case
    chains, _ = walk(problem, plan, layouts(problem, plan, warps))
    check_against_twin(problem, plan, chains.weights, chains.accepted, chains.energy, chains.solved_at)
