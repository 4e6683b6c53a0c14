"""Data on which expectation propagation does not converge: a run ends, says so in words, and counts what it reached."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint


def hard(n=60, m=42, seed=0):
    """Return patterns of rank 3 and noise, at a load that has a handful of solutions."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(m, n)) + rng.normal(size=(m, 3)) @ rng.normal(size=(3, n))


def test_a_hard_instance_ends_and_is_told_of_in_words():
    patterns = hard()
    problem = ss.Perceptron(patterns)
    with pytest.warns(UserWarning, match="message passing diverged in . of 4 samples") as heard:
        samples = ss.localize(problem, 4, rng=1)
    info, verdict = samples.info, ss.diagnose(samples)
    assert info.denoiser == "ep"
    # counted from the patterns themselves
    solved = (samples.weights @ patterns.T > 0).all(axis=1)
    assert solved.sum() < len(solved)
    assert (samples.solved == solved).all()
    assert not verdict.fair
    assert f"{4 - solved.sum()} of 4 samples are no solutions" in verdict.verdict
    # advice does not name what expectation propagation refuses
    assert "damping" not in " ".join([verdict.verdict, *(str(one.message) for one in heard)])
    failed = ~info.converged
    for j, words in enumerate(info.status):
        assert ("converged at every step" in words) == (solved[j] and not failed[:, j].any())
        assert solved[j] or "diverged" in words or "constraints are missed" in words
    # it does not iterate for long where that cannot converge
    assert failed.sum() > 10
    assert info.iterations[failed].mean() < 100


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:message passing diverged", "ignore:. of . samples miss")
def test_a_hard_run_goes_on_as_it_would_have(tmp_path, monkeypatch):
    """What a sample knows of calls that did not converge is kept with it."""
    monkeypatch.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
    problem, path = ss.Perceptron(hard(40, 26)), tmp_path / "run.npz"

    def stop(record):
        if not record.converged[-1].all() and len(record) > 4:
            raise KeyboardInterrupt

    whole = ss.localize(problem, 3, rng=2, denoiser="ep")
    with pytest.raises(KeyboardInterrupt):
        ss.localize(problem, 3, rng=2, denoiser="ep", checkpoint=path, callback=stop)
    resumed = ss.localize(problem, 3, rng=2, denoiser="ep", checkpoint=path)
    assert np.array_equal(resumed.weights, whole.weights)
    assert np.array_equal(resumed.info.iterations, whole.info.iterations)


def test_samples_on_which_message_passing_failed_are_told_of_and_not_called_fair():
    """Under a soft potential no constraint tells them, and so few samples agree with theory by chance."""
    problem = ss.Perceptron.random(41, 1.0, ss.Target(potential="errors", temperature=0.1), rng=0)
    with pytest.warns(UserWarning, match="diverged|unstable") as heard:
        samples = ss.localize(problem, 4, rng=1)
    theory, status = ss.predict(problem.target, problem.alpha), np.array(samples.info.status)
    assert all("damping" not in str(one.message) for one in heard)  # every one was tried
    highest = np.nanmax(samples.info.instability, axis=0)
    for how in ("diverged", "unstable"):
        these = np.array([how in word for word in status])
        assert these.any()
        assert not ss.diagnose(samples[these], theory).fair
        assert any(f"{how} in {these.sum()} of 4" in str(one.message) for one in heard)
    assert not any("converged at every step" in word for word in status[highest > 10])
