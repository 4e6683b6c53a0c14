"""Replica exchange at small n: the product of the rungs' measures stays where it is, on any device, after any stop."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_gpu_flips import emulated  # noqa: F401

import solspace as ss
from solspace.enumeration import decode
from solspace.samplers.annealing import chains as running
from solspace.samplers.annealing import exchange as exchanging
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.exchange import Exchange
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.device import missing

KEY, N, RUNGS = 20250301, 4, 3


def weights_of_all_states() -> np.ndarray:
    """(ladders, rungs, n) weights: one ladder for each of the 2^(n rungs) states of its replicas."""
    codes = np.stack(np.unravel_index(np.arange(1 << N * RUNGS), (1 << N,) * RUNGS), axis=1)
    return decode(codes.ravel(), N).reshape(-1, RUNGS, N)


@pytest.fixture(params=["binary", "gaussian"])
def exchange(request: pytest.FixtureRequest) -> Exchange:
    target = ss.Target(temperature=0.6)
    problem = ss.Perceptron.random(N, 0.75, target, request.param, rng=6)
    plan = Plan.of(stages_of("tau", target, 6)[1], 4, 1, solve=False)

    def make(own: Plan, k: int) -> Any:
        return cpu_flips(problem, own, KEY, k, 1)

    found = Exchange(make, plan, KEY, weights_of_all_states(), np.array([2, 4, 5]))
    found.problem = problem  # type: ignore[attr-defined]
    return found


def measures(exchange: Exchange) -> np.ndarray:
    """(rungs, 2^n) enumerated law of each rung, from the energies that the kernel itself gives."""
    prepared = exchange.flips.prepare(slice(0, 1))
    states = exchange.chains.weights.reshape(-1, RUNGS, N)
    laws = []
    for rung in range(RUNGS):
        energy = exchange.flips.energies_at(np.full(len(states) * RUNGS, rung), prepared)[0].reshape(-1, RUNGS)
        first = energy[:: 1 << N * (RUNGS - 1), 0]  # the first replica runs through all weights, the others stay
        laws.append(np.exp(-first + first.min()) / np.exp(-first + first.min()).sum())
    return np.array(laws)


@pytest.mark.parametrize("sweep", [6, 7])
def test_exchanges_leave_the_product_measure_invariant(exchange: Exchange, sweep: int) -> None:
    """The chance of every exchange of every state, from the energies of the kernels: a transition matrix."""
    laws = measures(exchange)
    shape = (1 << N,) * RUNGS
    product = np.einsum("a,b,c->abc", *laws)
    first, _, _, change, _ = exchange.proposed(sweep, exchange.flips.prepare(slice(0, 1)))
    assert first.tolist() == [sweep % 2]
    accepted = np.minimum(1, np.exp(-change[:, 0])).reshape(shape)
    there = product * accepted
    moved = product - there + np.swapaxes(there, first[0], first[0] + 1)
    assert np.abs(moved - product).sum() < 1e-12
    # planted bugs: always exchange, and the sign of the energies
    for wrong in (np.ones(shape), np.minimum(1, np.exp(change[:, 0])).reshape(shape)):
        flow = product * wrong
        assert np.abs(np.swapaxes(flow, first[0], first[0] + 1) - flow).sum() > 1e-3


def test_exchanges_are_made_as_often_as_they_should(exchange: Exchange) -> None:
    """Decisions follow Δ <= -log u, and who exchanges stages has exchanged nothing else."""
    before = exchange.chains.weights.copy()
    *_, change, _ = exchange.proposed(6, exchange.flips.prepare(slice(0, 1)))
    exchange.exchange(6, exchange.flips.prepare(slice(0, 1)))
    stage = exchange.chains.stage.reshape(-1, RUNGS)
    assert (np.sort(stage, axis=1) == np.arange(RUNGS)).all()
    swapped = stage[:, 0] == 1
    expected = np.minimum(1, np.exp(-change[:, 0]))
    spread = np.sqrt((expected * (1 - expected)).sum())
    assert abs(swapped.sum() - expected.sum()) < 5 * spread
    assert swapped[change[:, 0] <= 0].all()
    assert (exchange.swaps[:, 0] == [len(stage), swapped.sum()]).all()
    assert (exchange.chains.weights == before).all()


def test_a_sweep_moves_each_replica_at_its_own_rung(exchange: Exchange) -> None:
    """Replicas at a rung make the moves of plain chains that have stayed at this rung's stage all along."""
    replicas, plan = exchange.chains, exchange.plan
    start, sweeps = replicas.weights.copy(), slice(6, 7)
    replicas.begun = 6
    exchange.flips.launch(replicas, sweeps, exchange.flips.prepare(sweeps))
    exchange.flips.collect(replicas)
    for rung, t in enumerate(exchange.rungs):
        alone = replace(plan, stages=[plan.stages[t]] * len(plan), draw_at=np.full(len(plan), -1))
        flips = cpu_flips(exchange.problem, alone, KEY, len(start), 1)
        chains = Chains.start(start.copy(), alone)
        flips.place(chains)
        flips.launch(chains, sweeps, flips.prepare(sweeps))
        flips.collect(chains)
        rows = replicas.stage == rung
        np.testing.assert_array_equal(replicas.weights[rows], chains.weights[rows])
        np.testing.assert_array_equal(replicas.energy[rows, 0], chains.energy[rows, 6])
        assert (replicas.weights[rows] != start[rows]).any()


OPTIONS = {"n_chains": 3, "n_sweeps": 40, "n_extra": 30, "thin": 5, "rng": 5, "exchange": True, "progress": False}


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_energies_are_those_of_the_draws(patterns: str) -> None:
    problem = ss.Perceptron.random(31, 0.5, ss.Target(temperature=0.5), patterns, rng=3)
    samples = ss.anneal(problem, n_rungs=4, **OPTIONS)
    info = samples.info
    assert samples.weights.shape == (3 * 6, 31)
    assert len(info.ladder) == 4
    assert info.ladder[-1] == 39
    assert info.energy.shape == info.acceptance.shape == (3, 70)
    assert ((info.swap_acceptance > 0) & (info.swap_acceptance <= 1)).all()
    energy = -np.log(np.maximum(samples.stabilities, 1e-9)).sum(axis=1).reshape(3, 6)
    solved = samples.solved.reshape(3, 6)
    np.testing.assert_allclose(info.energy[:, info.draw_sweep][solved], energy[solved], atol=0.02)
    plain = ss.anneal(problem, **{**OPTIONS, "exchange": False})
    np.testing.assert_array_equal(info.energy[:, :40], plain.info.energy[:, :40])  # pilots are the chains without


@pytest.mark.exhaustive
@pytest.mark.parametrize(("patterns", "n_rungs"), [("binary", 4), ("gaussian", 2), ("gaussian", 3)])
def test_devices_make_the_same_ladders(emulated: None, patterns: str, n_rungs: int) -> None:  # noqa: F811
    problem = ss.Perceptron.random(31, 0.5, ss.Target(temperature=0.5), patterns, rng=3)
    here, there = (ss.anneal(problem, n_rungs=n_rungs, device=device, **OPTIONS) for device in ("cpu", "gpu"))
    assert here.info.round_trips.any()
    np.testing.assert_array_equal(here.weights, there.weights)
    for name in ("energy", "acceptance", "ladder", "swap_acceptance", "round_trips", "solved_at"):
        np.testing.assert_array_equal(here.info[name], there.info[name])


@pytest.mark.exhaustive
def test_a_sweep_on_a_device_makes_the_rows_of_one_without(emulated: None, tmp_path: Path) -> None:  # noqa: F811
    tau = {"name": "tau", "n_sweeps": 12, "n_extra": 20, "thin": 5, "exchange": True, "n_rungs": 3}
    spec = ss.Spec(n=21, alpha=0.3, sampler=tau, instances=2, n_samples=2, keep=["weights"])
    found = []
    for name, one in (("cpu", spec), ("gpu", spec.with_options(device="gpu"))):
        rows = ss.sweep(one, tmp_path / f"{name}.db", "serial").rows(arrays=True)
        found.append({row.key: (row.status, row.values, row.arrays["weights"].tolist()) for row in rows})
    assert len(found[0]) == 2
    assert found[0] == found[1]


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("at", [20, 40, 55])
def test_a_run_that_was_stopped_goes_on_as_if_it_had_not(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem = ss.Perceptron.random(31, 0.5, ss.Target(temperature=0.5), rng=3)
    for module in (running, exchanging):
        monkeypatch.setattr(module, "BEAT", 1e-9)

    def stop(chains: Chains) -> None:
        if chains.sweep >= at:
            raise Interrupted

    kept = tmp_path / "run.npz"
    with pytest.raises(Interrupted):
        ss.anneal(problem, callback=stop, checkpoint=kept, **OPTIONS)
    whole, resumed = ss.anneal(problem, **OPTIONS), ss.anneal(problem, checkpoint=kept, **OPTIONS)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    for name in ("energy", "acceptance", "ladder", "swap_acceptance", "round_trips", "solved_at"):
        np.testing.assert_array_equal(resumed.info[name], whole.info[name])
    with pytest.raises(ValueError, match="another run"):
        ss.anneal(problem, checkpoint=kept, **{**OPTIONS, "exchange": False})


@pytest.mark.exhaustive
def test_ladders_that_a_device_left_go_on_anywhere(
    emulated: None,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem = ss.Perceptron.random(31, 0.5, ss.Target(temperature=0.5), rng=3)
    monkeypatch.setattr(exchanging, "BEAT", 1e-9)

    def stop(chains: Chains) -> None:
        if chains.sweep >= 50:
            raise Interrupted

    kept, options = tmp_path / "run.npz", {**OPTIONS, "n_rungs": 3}
    with pytest.raises(Interrupted):
        ss.anneal(problem, callback=stop, checkpoint=kept, device="gpu", **options)
    whole = ss.anneal(problem, **options)
    for device in ("gpu", "cpu"):
        own = tmp_path / f"{device}.npz"
        own.write_bytes(kept.read_bytes())
        resumed = ss.anneal(problem, checkpoint=own, device=device, **options)
        np.testing.assert_array_equal(resumed.weights, whole.weights)
        for name in ("energy", "acceptance", "swap_acceptance", "round_trips", "solved_at"):
            np.testing.assert_array_equal(resumed.info[name], whole.info[name])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_extra": 0}, "give n_extra of them"),
        ({"exchange": False, "n_rungs": 3}, "n_rungs are those of replica exchange"),
        ({"exchange": 1}, "exchange must be True or False; got 1"),
        ({"n_rungs": 1}, "n_rungs must be an integer of at least 2"),
        ({"n_rungs": 50}, "n_rungs must be at most 11"),
        ({"n_sweeps": 1}, "at least two sweeps"),
        ({"schedule": "temperature"}, "positive temperature"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, Any], words: str) -> None:
    problem = ss.Perceptron.random(11, 0.3, rng=3)
    with pytest.raises(ValueError, match=words):
        ss.anneal(problem, **{**OPTIONS, **options})


@pytest.mark.gpu
@pytest.mark.skipif(bool(missing()), reason="no CUDA device with CuPy")
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_a_device_makes_the_ladders_of_the_processor(patterns: str) -> None:
    problem = ss.Perceptron.random(301, 0.5, ss.Target(temperature=0.5), patterns, rng=3)
    settings = {**OPTIONS, "n_chains": 20, "n_sweeps": 60, "n_extra": 150}
    here, there = (ss.anneal(problem, device=where, **settings) for where in ("cpu", "gpu"))
    assert here.info.round_trips.any()
    np.testing.assert_array_equal(here.weights, there.weights)
    for name in ("energy", "acceptance", "ladder", "swap_acceptance", "round_trips", "solved_at"):
        np.testing.assert_array_equal(here.info[name], there.info[name])
