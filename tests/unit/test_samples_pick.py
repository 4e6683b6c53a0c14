"""Samples are indexed, masked, iterated and put together; their records go with them or say what they no longer know."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import solspace as ss
from solspace.info import AnnealingInfo, DrawsInfo, Info, LocalizationInfo
from solspace.samplers.annealing.anneal import first_solutions

PROBLEM = ss.Perceptron.random(51, 0.3, rng=1)
CHAINS = {"n_chains": 6, "n_sweeps": 20, "n_extra": 80, "thin": 5, "rng": 3}  # 16 draws of each chain


def chains(**changes):
    return ss.anneal(PROBLEM, **{**CHAINS, **changes})


@pytest.fixture(scope="module")
def annealed():
    return chains()


@pytest.fixture(scope="module")
def localized():
    return ss.localize(PROBLEM, 6, rng=1)


def same_record(one, other, but=("wall_time",)):
    assert type(one) is type(other)
    for field in dataclasses.fields(one):
        if field.name not in but:
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name), field.name)


@pytest.mark.parametrize("which", [
    2, -1, np.int64(3), slice(1, 4), slice(None, None, -2), [0, 5, 5], np.array([4, -6]), [True, False, True, True, False, True],
    [], slice(3, 3),
], ids=str)  # fmt: skip
def test_picking_is_that_of_arrays_and_each_samples_record_goes_with_it(localized, which):
    rows = np.atleast_1d(np.arange(6)[which if not isinstance(which, list) or which else slice(0)])
    some = localized[which]
    assert len(some) == len(rows)
    for name in ("weights", "stabilities", "solved"):
        np.testing.assert_array_equal(getattr(some, name), getattr(localized, name)[rows])
    for name in ("t", "overlap", "iterations", "converged", "instability"):
        np.testing.assert_array_equal(getattr(some.info, name), getattr(localized.info, name)[:, rows])
    assert some.info.status == [localized.info.status[row] for row in rows]
    np.testing.assert_array_equal(some.info.damping, localized.info.damping[rows])
    assert (some.target, some.digest) == (localized.target, localized.digest)


@pytest.mark.parametrize(
    "which", [6, -7, 1.0, "a", (0, 1), [0.5], [True, False], np.zeros((2, 2), int), [0, 6], True, None]
)
def test_nonsense_is_an_index_error_in_a_sentence(localized, which):
    with pytest.raises(IndexError, match=r"^(there|samples) .*\.$"):
        localized[which]


def test_iterating_gives_samples_of_one_and_arrays_are_weights(localized):
    ones = list(localized)
    assert [len(one) for one in ones] == [1] * 6
    np.testing.assert_array_equal(np.concatenate([one.weights for one in ones]), localized.weights)
    np.testing.assert_array_equal(np.asarray(localized), localized.weights)
    assert np.asarray(localized, dtype=float).dtype == float
    assert np.array(localized, copy=True) is not localized.weights


def test_whole_chains_are_what_a_run_of_fewer_chains_gives(annealed):
    same_record(annealed[: 4 * 16].info, chains(n_chains=4).info)
    assert repr(ss.diagnose(annealed[: 4 * 16])) == repr(ss.diagnose(chains(n_chains=4)))
    swapped = annealed[np.concatenate([np.arange(48, 64), np.arange(16)])]
    np.testing.assert_array_equal(swapped.info.energy, annealed.info.energy[[3, 0]])
    np.testing.assert_array_equal(swapped.by_chain(), annealed.by_chain()[[3, 0]])


def test_every_other_draw_is_what_a_thinner_run_gives(annealed):
    same_record(annealed[1::2].info, chains(thin=10).info)
    assert repr(ss.diagnose(annealed[1::2])) == repr(ss.diagnose(chains(thin=10)))


def test_draws_that_are_not_evenly_spaced_do_not_judge_themselves(annealed):
    kept = np.delete(np.arange(16), 7)
    some = annealed[(16 * np.arange(6)[:, None] + kept).ravel()]
    assert isinstance(some.info, AnnealingInfo)
    report = ss.diagnose(some)
    assert report.mixing is None
    assert report.verdict.startswith("cannot tell: these draws are not equally far apart")


def test_single_draws_know_their_chain_and_nothing_of_mixing(annealed):
    mask = np.random.default_rng(0).random(len(annealed)) < 0.5
    some = annealed[mask]
    assert isinstance(some.info, DrawsInfo)
    np.testing.assert_array_equal(some.info.chain, annealed.info.chain[mask])
    assert ss.diagnose(some).verdict.startswith("cannot tell: compare")
    # the error of the overlap counts chains, not draws
    judged = ss.diagnose(some, ss.predict(PROBLEM.target, 0.3))
    assert judged.overlap.error > 0.5 / np.sqrt(PROBLEM.n)
    for whole in (some.by_chain, some.chain_overlaps, some.to_arviz):
        with pytest.raises(ValueError, match="not equally many, chain by chain"):
            whole()
    again = some[::2][3:]
    np.testing.assert_array_equal(again.info.chain, some.info.chain[::2][3:])


def test_solutions_stay_solutions():
    found = first_solutions(PROBLEM, 4, 100, rng=0)
    for some in (found[1:3], found[[0, 0, 1]], found[:2] + ss.solve(PROBLEM, 2, rng=0)[1]):
        assert ss.diagnose(some).verdict.startswith("solutions, not samples")
    two = ss.solve(PROBLEM, 3, rng=0)[1:]
    assert two.info.unmet.shape == (2,)


def test_records_of_ones_own_keep_what_is_said_of_the_run():
    own = ss.Samples.of(PROBLEM, np.ones((3, 51), np.int8), {"sampler": "mine", "sweeps": 9, "heights": np.arange(3)})
    assert dict(own[1:].info) == {"sampler": "mine", "sweeps": 9}
    assert own[:].info is own.info


def test_chains_put_together_are_chains_of_one_run(annealed):
    other = chains(rng=4)
    both = annealed + other
    assert isinstance(both.info, AnnealingInfo)
    assert both.info.n_chains == 12
    assert both.info.key is None
    np.testing.assert_array_equal(both.by_chain(), np.concatenate([annealed.by_chain(), other.by_chain()]))
    np.testing.assert_array_equal(both.info.at_draws()["energy"].ravel(), np.concatenate([
        annealed.info.at_draws()["energy"].ravel(), other.info.at_draws()["energy"].ravel()]))  # fmt: skip
    same_record(both[: len(annealed)].info, annealed.info, but=("wall_time", "key"))
    halves = annealed[:48] + annealed[48:]
    assert repr(ss.diagnose(halves)) == repr(ss.diagnose(annealed))
    assert ss.diagnose(both).mixing.n_chains == 12


def test_localizations_of_other_lengths_lie_side_by_side(localized):
    other = ss.localize(PROBLEM, 2, rng=5)
    shorter = dataclasses.replace(other.info, **{name: other.info[name][:-3] for name in LocalizationInfo.PATH})
    cut = ss.Samples(other.weights, other.stabilities, other.solved, other.target, shorter, other.digest)
    both = ss.Samples.concatenate([localized, cut])
    assert isinstance(both.info, LocalizationInfo)
    assert both.info.t.shape == (max(len(localized.info.t), len(shorter.t)), 8)
    assert both.info.numbers()["iterations"] == pytest.approx(
        (6 * localized.info.numbers()["iterations"] + 2 * shorter.numbers()["iterations"]) / 8
    )
    parts = ss.localize(PROBLEM, 2, rng=5, step=0.5) + localized
    assert isinstance(parts.info, DrawsInfo)
    assert parts.info.sampler == "asl"


def test_samplers_put_together_keep_apart_what_is_independent(annealed, localized):
    both = annealed[:32] + localized
    assert isinstance(both.info, DrawsInfo)
    assert both.info.sampler == "tau + asl"
    assert both.info.chain.tolist() == [0] * 16 + [1] * 16 + [2, 3, 4, 5, 6, 7]
    plain = [ss.Samples.of(PROBLEM, both.weights, {"sampler": "mine", "colour": "red", "x": x}) for x in (1, 2)]
    assert dict(ss.Samples.concatenate(plain).info) == {"sampler": "mine", "colour": "red"}
    assert type(ss.Samples.concatenate(plain).info) is Info


def test_other_problems_are_refused(localized, tmp_path):
    elsewhere = ss.localize(ss.Perceptron.random(51, 0.3, rng=2), 2, rng=1)
    with pytest.raises(ValueError, match="but their patterns are others"):
        localized + elsewhere
    elsewhere.save(tmp_path / "s.npz")
    with pytest.raises(ValueError, match="but their patterns are others"):
        ss.diagnose(localized, reference=ss.Samples.load(tmp_path / "s.npz"))
    colder = ss.localize(PROBLEM.with_target(ss.Target(temperature=0.3)), 2, rng=1)
    with pytest.raises(ValueError, match=r"one is under .* T = 0.5"):
        ss.Samples.concatenate([localized, colder])
    with pytest.raises(ValueError, match="one has n = 51"):
        localized + ss.solve(ss.Perceptron.random(53, 0.3, rng=2), rng=1)
    with pytest.raises(ValueError, match="at least one"):
        ss.Samples.concatenate([])
    with pytest.raises(ValueError, match="an entry of parts must be a solspace Samples"):
        ss.Samples.concatenate([localized, localized.weights])
    with pytest.raises(TypeError):
        localized + 1


def test_picked_draws_are_kept_in_a_file(annealed, tmp_path):
    some = annealed[[3, 17, 18]]
    some.save(tmp_path / "s.npz")
    again = ss.Samples.load(tmp_path / "s.npz")
    same_record(again.info, some.info)
    assert again.digest == PROBLEM.digest
    with pytest.raises(ValueError, match="must hold at least one sample"):
        ss.diagnose(annealed[:0])
