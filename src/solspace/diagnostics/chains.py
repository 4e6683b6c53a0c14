"""Judge annealed chains by themselves: have they forgotten where they started?

The overlap of a chain with its own past, *self*, falls with time from 1 to the overlap of two independent samples, *cross*,
estimated from different chains. The remaining difference, the *memory*

    1/n Σ_i Cov[w_i(t), w_i(t + lag)]    (over chains),

has mean 0 once a chain has forgotten its start. Where chains are stuck in regions of the solution space it is the overlap inside
one less that of all, the most that an uneven choice among them can change. *mixed: fair within x*: a memory of x would have
been detected in 95% of runs.
"""

from __future__ import annotations

import numpy as np

from solspace.diagnostics.report import MISSED, REMEMBERED, Estimate, Mixing, Verdict, enough, sigmas_of, visible
from solspace.info import AnnealingInfo
from solspace.numerics.arrays import Array
from solspace.numerics.series import autocorrelation_time, believed, effective_size, integrated, split_rhat
from solspace.samples import Samples

ENOUGH_CHAINS, ENOUGH_DRAWS = 4, 8  # with fewer, chains cannot be judged by themselves
USUAL_CHAINS, USUAL_EXTRA = 16, 1000  # chains, and sweeps after their schedule, that are usually enough
FINE = 0.03  # bias of the overlaps that must be excluded for chains to be called mixed
FORGOTTEN = 0.002  # memory that the advised number of sweeps should leave
_WORK = 4e9  # most products of weights spent on the decay of the overlap
_LATE = 20  # most sweeps that are advised, in lengths of the run


def mixing(samples: Samples, info: AnnealingInfo) -> Mixing | None:
    """Compare the draws of annealed chains; None if there are too few of them, or they are not evenly spaced."""
    if info.mode != "sample" or _unjudged(info):
        return None
    # evenly spaced draws, as many as `_WORK` allows
    most = max(int(np.sqrt(_WORK / (info.n_chains * samples.n))), 2 * ENOUGH_DRAWS)
    kept = np.arange(info.n_draws)[:: -(-info.n_draws // most)]
    decay, own, cross, memory = _memory(samples.by_chain()[:, kept])
    every, half = int(np.diff(np.asarray(info.draw_sweep)[kept])[0]), len(kept) // 2
    series, times, energy = {}, {}, info.at_draws()["energy"]
    if np.ptp(energy) > 0:
        series["energy"] = energy
        times["energy"] = autocorrelation_time(np.asarray(info.energy)[:, info.n_anneal :])
    series["overlap"] = samples.chain_overlaps()
    times["weights"] = every * believed(integrated(decay / decay[0]), len(kept))
    late = np.asarray(info.draw) >= info.n_draws // 2
    return Mixing(
        lag=every * half,
        self_overlap=own,
        cross_overlap=cross,
        memory=memory,
        earlier=float(decay[max(half // 2, 1)]),
        rhat={name: split_rhat(one) for name, one in series.items()},
        effective={name: effective_size(one) for name, one in series.items()},
        time=times,
        missed=float(np.mean(~samples.solved[late])) if samples.target.potential.hard else 0.0,
        n_chains=info.n_chains,
        n_draws=info.n_draws,
        norm=float(np.mean(np.square(samples.weights, dtype=np.float64))),
    )


def _memory(weights: Array) -> tuple[Array, Estimate, Estimate, Estimate]:
    """Return the memory (lags,) of draws (chains, draws, n) up to half of them; self, cross and memory at that lag."""
    chains, draws, n = weights.shape
    half = draws // 2
    mean = weights.mean(axis=0, dtype=np.float64).astype(np.float32)
    total, own, kept, others = np.zeros((draws, draws)), np.empty(chains), np.empty(chains), np.empty(chains)
    for c, chain in enumerate(weights):
        plain, centred = chain.astype(np.float32), chain - mean
        gram, across = centred @ centred.T, plain @ mean.T
        total += gram
        kept[c] = np.diagonal(gram, half).mean() * chains / (chains - 1) / n
        own[c] = np.diagonal(plain @ plain.T, half).mean() / n
        # with the draws of all chains at this distance in time, later and earlier
        either = np.diagonal(across, half).mean() + np.diagonal(across, -half).mean()
        others[c] = (chains * either / n - 2 * own[c]) / (chains - 1)
    decay = np.array([np.diagonal(total, lag).mean() for lag in range(half + 1)])
    # every chain is in two sums over pairs: `others` is twice its share
    cross = Estimate(float(others.mean()) / 2, _mean(others).error)
    return decay / ((chains - 1) * n), _mean(own), cross, _mean(kept)


def _mean(values: Array) -> Estimate:
    return Estimate(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))), df=len(values) - 1)


def judge(info: AnnealingInfo, found: Mixing | None) -> Verdict:
    if found is None:
        return Verdict(None, f"cannot tell: {_unjudged(info)}.")
    if stuck := _stuck(found):
        return Verdict(False, f"not mixed: {stuck}; {_advice(found, info)}.")
    error, n_chains, norm = found.memory.error, found.n_chains, found.norm
    within = _within(error, n_chains, norm)
    if within > FINE * norm:
        start = max(n_chains + 1, USUAL_CHAINS)
        # the error may be larger than estimated
        many = enough(lambda count: _within(error * np.sqrt(n_chains / count), count, norm), start, FINE * norm * 2 / 3)
        words = f"{n_chains} chains could hide a bias of {within:.3f} of the overlaps"
        more = f"run n_chains >= {_rounded(many)}" if many else "run n_chains and n_extra many times as large"
        return Verdict(None, f"cannot tell: {words}; {more}.")
    words = f"after {found.lag} sweeps chains have forgotten where they were"
    both = f"overlap with itself {found.self_overlap.value:.4f}, of two chains {found.cross_overlap.value:.4f}"
    return Verdict(True, f"mixed: fair within {within:.4f} ({words}: {both}).", within)


def _unjudged(info: AnnealingInfo) -> str:
    """Return why chains cannot be judged by their own draws, and what to run instead; empty if they can."""
    ran = info.energy.shape[1] - info.n_anneal
    if info.n_chains < ENOUGH_CHAINS or info.n_draws < ENOUGH_DRAWS:
        chains = "1 chain of {} is" if info.n_chains == 1 else f"{info.n_chains} chains of {{}} are"
        words = f"{chains.format('1 draw' if info.n_draws == 1 else f'{info.n_draws} draws')} too few to judge by"
        if info.n_draws < ENOUGH_DRAWS and ran >= USUAL_EXTRA:
            return f"{words}; keep more draws: run with thin <= {ran // (2 * ENOUGH_DRAWS)}"
        return f"{words}; run n_chains >= {max(USUAL_CHAINS, info.n_chains)} with n_extra >= {max(USUAL_EXTRA, ran)}"
    if len(set(np.diff(info.draw_sweep).tolist())) > 1:
        return "these draws are not equally far apart in time; take all of them, or every other"
    return ""


def _within(error: float, n_chains: int, norm: float) -> float:
    """Return the smallest memory that is found beyond `Mixing.forgotten` with probability `POWER`."""
    sigmas = sigmas_of(n_chains)
    return max(REMEMBERED * norm, sigmas * error) + (visible(n_chains - 1, sigmas) - sigmas) * error


def _stuck(found: Mixing) -> str:
    signs = []
    if found.missed > MISSED:
        signs.append(f"{found.missed:.0%} of the later draws still miss constraints")
    if found.memory.value > found.forgotten:
        pair = f"{found.self_overlap.value:.3f}, two chains {found.cross_overlap.value:.3f}"
        signs.append(f"after {found.lag} sweeps a chain's overlap with itself is {pair}")
    if found.rhat[found.worst] > found.highest_rhat:
        signs.append(f"chains differ in {found.worst} (R-hat {found.rhat[found.worst]:.3g})")
    return ", and ".join(signs)


def _advice(found: Mixing, info: AnnealingInfo) -> str:
    """Return what to run instead: as many sweeps as memory falls in at its present rate, or exchange."""
    if found.missed > MISSED:
        return "run more n_sweeps, or try a lower load"
    ran = info.energy.shape[1] - info.n_anneal
    now, before = found.memory.value, found.earlier
    lag: float = 2 * found.lag
    if now > FORGOTTEN * found.norm:
        falls = np.log(before / now) if before > now else 0.0
        lag = found.lag + (found.lag / 2) * np.log(now / FORGOTTEN / found.norm) / max(falls, 1e-9)
    # replicas are exchanged along a schedule of their own kind
    other = "exchange=True" if info.ladder is None and info.sampler in ("tau", "tempering") else "a lower load"
    if 2 * lag > _LATE * ran:
        return f"more sweeps will hardly do: try {other}"
    return f"run n_extra >= {_rounded(2 * lag)}, or try {other}"


def _rounded(count: float) -> int:
    """Return `count` rounded up to two digits.

    >>> _rounded(12345), _rounded(7)
    (13000, 7)
    """
    step = 10 ** max(int(np.floor(np.log10(max(count, 1)))) - 1, 0)
    return int(-(-count // step) * step)
