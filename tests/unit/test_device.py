"""`device=` on machines without one: sentences, and the way back to the CPU."""

from __future__ import annotations

import itertools
import queue
import threading
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest
from hatchling.builders.wheel import WheelBuilder

import solspace as ss
from solspace.experiments.device import packs
from solspace.samplers import device
from solspace.samplers.annealing import batches
from solspace.samplers.annealing.gpu_flips import IntegerLayout, RealLayout
from solspace.samplers.kernels import cuda


@pytest.fixture
def no_device(monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "needs CuPy: pip install 'solspace[gpu]'.")


def test_without_a_device_gpu_says_what_to_install(no_device):
    problem = ss.Perceptron.random(n=21, alpha=0.3, rng=0)
    with pytest.raises(RuntimeError, match=r"needs CuPy: pip install 'solspace\[gpu\]'.*device='auto' falls back"):
        ss.anneal(problem, 2, 5, device="gpu")


def test_without_a_device_auto_runs_on_the_processor(no_device):
    problem = ss.Perceptron.random(n=21, alpha=0.3, rng=0)
    assert ss.anneal(problem, 2, 5, rng=0, device="auto").info["device"] == "cpu"


def test_an_unknown_device_is_named():
    with pytest.raises(ValueError, match="unknown device 'tpu'"):
        device.resolve("tpu")


def test_sources_are_packaged():
    for name in cuda.PARTS:
        assert "__global__" in cuda.source(name)
        assert cuda.source(name).isascii()  # whatever compiles them, under any locale


def test_the_wheel_holds_the_sources():
    root = Path(__file__).parents[2]
    held = {Path(file.distribution_path).name for file in WheelBuilder(str(root)).recurse_included_files()}
    assert {part for parts in cuda.PARTS.values() for part in parts} <= held


@pytest.mark.parametrize("m", [1, 63, 500, 2500, 5000, 20_000, 50_000])
@pytest.mark.parametrize("chains", [1, 100, 1000, 10_000])
def test_layouts_hold_every_constraint_within_the_device(m, chains):
    size = min(2 * m + 3, 1 << 16)
    for own in (True, False):
        layout = IntegerLayout.choose(m, size, chains, 132, own)
        assert layout.slots * layout.threads >= m > (layout.slots - 2) * layout.threads
        assert layout.shared_bytes <= 227 << 10
        assert layout.group * layout.threads <= 1024
        assert not own or layout.group <= 4
        assert max(1, layout.group) <= layout.held <= 64 // layout.warps
    for power, own in itertools.product((True, False), repeat=2):
        real = RealLayout.choose(m, power, chains, 132, own=own)
        assert real.size >= m > real.size - 4 * real.threads
        assert real.shared_bytes <= 227 << 10
        assert real.group * real.threads <= 1024
        assert max(1, real.group) <= real.held <= 64 // real.warps


def test_what_chains_need_is_compiled_ahead(monkeypatch):
    """For every shape that comes, of ±1 patterns and others, with the sizes that its chains will have."""
    monkeypatch.setattr(batches, "processors", lambda: 132)

    def module(n, m, signs, **more):
        return batches.flips_module(batches.Shape(n, m, signs, ss.Target()), 22_800, **more)

    integer, real, larger = module(1001, 500, True), module(784, 392, False), module(784, 784, False)
    assert [name for name, _ in (integer, real, larger)] == ["flips_integer", "flips_real", "flips_real"]
    assert dict(integer[1])["PAIRS"] == 8
    assert [dict(sizes)["QUADS"] for _, sizes in (real, larger)] == [4, 7]
    assert [dict(module(784, 392, False, linear=linear)[1])["LINEAR"] for linear in (False, True)] == [0, 1]
    assert [dict(module(784, 392, False, own=own)[1])["OWN"] for own in (False, True)] == [0, 1]


def test_modules_are_compiled_side_by_side(monkeypatch):
    compiled, together = queue.SimpleQueue(), threading.Barrier(2, timeout=30)

    class Module:
        def __init__(self, code, options):
            self.options = options

        @property
        def module(self):
            together.wait()
            compiled.put(self.options[-1])

    monkeypatch.setattr(device, "cupy", lambda: SimpleNamespace(RawModule=Module))
    monkeypatch.setattr(cuda.os, "cpu_count", lambda: 2)
    cuda.module.cache_clear()
    cuda.compile_ahead([("flips_integer", (("PAIRS", pairs),)) for pairs in (1, 2, 1)])
    assert {compiled.get(timeout=30) for _ in range(2)} == {"-DPAIRS=1", "-DPAIRS=2"}
    cuda.module.cache_clear()


@pytest.mark.parametrize(
    ("entries", "fits"),
    [
        ({}, True),
        ({"patterns": "gaussian"}, False),
        ({"patterns": "gaussian", "sampler": {"name": "asl", "variances": "scalar"}}, True),
        ({"sampler": {"name": "asl", "precision": "float64"}}, False),
        ({"target": ss.Target(potential="band(1.5)")}, True),
        ({"target": ss.Target(potential="tau(0.5)")}, False),
    ],
)
def test_a_sweep_packs_what_a_device_can_do(entries, fits, monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "")
    (task,) = ss.Spec(**{"n": 21, "alpha": 0.3, "sampler": "asl", **entries}).with_options(device="auto").tasks()
    assert packs(task) is fits


def test_batches_are_launched_while_there_is_room():
    """What waits in line on a device keeps all behind it waiting: a batch that is too large now lets smaller ones by."""

    def run(share, nbytes=1):
        return SimpleNamespace(job=SimpleNamespace(share=share / 80, nbytes=nbytes, pairs=True))

    def coming(*made):
        futures = [Future() for _ in made]
        for future, one in zip(futures, made):
            if isinstance(one, Exception):
                future.set_exception(one)
            elif one is not None:
                future.set_result(one)
        return [(None, future) for future in futures]

    full, lost = [run(40), run(30)], ValueError("no problem")
    assert batches._next([], coming(None, run(500, 500)), memory=10) == 1  # nothing else runs
    assert batches._next(full[:1], coming(run(500, 500), run(500)), memory=10) == 1  # one alone would wait for the host
    assert batches._next(full, coming(run(11), run(10), run(1)), memory=10) == 1
    assert batches._next(full, coming(run(11), run(9, 9), run(5)), memory=10) == 2
    assert batches._next(full, coming(None, run(11)), memory=10) is None
    assert batches._next(full, coming(run(11), lost), memory=10) == 1
    assert batches._next(full, [], memory=10) is None
