"""How annealed chains mix once their schedule is over: how far they move, how fast they forget, how many draws count.

At the last stage a chain wanders through solutions. Its overlap with where it was, ⟨w(t), w(t + lag)⟩/n, falls with
the lag from 1 to the overlap of two independent samples, which the overlap between chains gives: in the dense cluster
that τ-annealing finds the fall is complete (the chain diffuses far), in an isolated solution there is none. The time
it takes, and the autocorrelation time of the energy, are integrated with Sokal's window and are not quoted from chains
shorter than 50 of them.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.samples import Samples

Array = NDArray[Any]
_WINDOW = 5.0
"""Sokal's window: lags up to this many autocorrelation times are summed."""
_ENOUGH = 50.0
"""Autocorrelation times that a chain must last for the time to be believed."""


@dataclass(frozen=True)
class Mixing:
    """What the further sweeps of chains tell.

    Times are in sweeps, and NaN where the chains are too short to tell; `message` then says so.
    """

    lags: Array
    overlap: Array
    """(lags,) overlap of a chain with itself so many sweeps later, averaged over chains and starts."""
    between: float
    """Overlap between chains: what `overlap` falls to when a chain forgets where it was."""
    time: float
    """Autocorrelation time of the weights."""
    energy_time: float
    """Autocorrelation time of the energy."""
    acceptance: float
    message: str

    def __str__(self) -> str:
        return (
            f"overlap {self.overlap[1]:.3f} after {self.lags[1]} sweeps, {self.overlap[-1]:.3f} after {self.lags[-1]}, "
            f"{self.between:.3f} between chains; autocorrelation time {self.time:.3g} sweeps (weights), "
            f"{self.energy_time:.3g} (energy); acceptance {self.acceptance:.3f}; {self.message}"
        )


def mixing(samples: Samples) -> Mixing:
    """Return how the chains of `samples` mixed in the sweeps after their schedule.

    >>> from solspace.problem import Perceptron
    >>> from solspace.samplers.annealing.anneal import anneal
    >>> problem = Perceptron.random(n=101, alpha=0.2, rng=0)
    >>> found = mixing(anneal(problem, n_chains=4, n_sweeps=50, n_extra=400, thin=2, rng=0))
    >>> bool(found.overlap[0] == 1 and found.overlap[-1] < found.overlap[1] < 1)
    True
    """
    weights, every = _chains(samples)
    overlap = _decay(weights)
    between = _between(weights)
    # an uncorrelated chain still falls only to the overlap between samples: the rest of the fall is what is forgotten
    time = every * _integrated((overlap - between) / (1 - between))
    first = int(samples.info["n_anneal"])
    energy_time = autocorrelation_time(np.asarray(samples.info["energy"])[:, first:])
    length = every * weights.shape[1]
    believed = np.isfinite(time) and length >= _ENOUGH * time
    return Mixing(
        lags=every * np.arange(len(overlap)),
        overlap=overlap,
        between=between,
        time=time if believed else np.nan,
        energy_time=energy_time,
        acceptance=float(np.asarray(samples.info["acceptance"])[:, first:].mean()),
        message="mixed well" if believed else f"{length} sweeps are too few for an autocorrelation time of the weights",
    )


def autocorrelation_time(series: Array) -> float:
    """Return the integrated autocorrelation time of `series` (chains, length), in steps.

    NaN from fewer than 50 times as many steps.

    >>> white = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(autocorrelation_time(white) - 1) < 0.2)
    True
    """
    series = np.asarray(series, dtype=float)
    length = series.shape[1]
    centred = series - series.mean()
    spectrum = np.fft.rfft(centred, 2 * length, axis=1)
    covariance = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :length].mean(axis=0) / np.arange(length, 0, -1)
    if not covariance[0] > 0:
        return np.nan
    time = _integrated(covariance / covariance[0])
    return time if length >= _ENOUGH * time else np.nan


def effective_sizes(samples: Samples, most: int = 64) -> dict[str, float]:
    """Return the effective number of independent draws, by ArviZ: of the `energy`, and the lowest tenth over `weights`.

    At most `most` weights, evenly spread, are looked at; `samples.to_arviz()` has all of them.

    >>> from solspace.problem import Perceptron
    >>> from solspace.samplers.annealing.anneal import anneal
    >>> problem = Perceptron.random(n=51, alpha=0.2, rng=0)
    >>> sizes = effective_sizes(anneal(problem, n_chains=4, n_sweeps=50, n_extra=400, thin=4, rng=0), most=8)
    >>> bool(100 < sizes["energy"] < 800)
    True
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # ArviZ announces its next version at import
        import arviz
    energy = np.asarray(samples.info["energy"])[:, np.asarray(samples.info["draw_sweep"])]
    weights = _chains(samples)[0]
    # a weight that never flips has no effective size; it says nothing about how the others move
    moving = np.flatnonzero((weights != weights[:1, :1]).any(axis=(0, 1)))
    seen = moving[:: max(1, len(moving) // most)]
    sizes = [float(arviz.ess(weights[:, :, i])) for i in seen]
    return {"energy": float(arviz.ess(energy)), "weights": float(np.quantile(sizes, 0.1)) if sizes else 0.0}


def _chains(samples: Samples) -> tuple[Array, int]:
    """Return the draws (chains, draws, n) and the sweeps between them."""
    drawn = np.asarray(samples.info.get("draw_sweep", ()))
    if len(drawn) < 4:
        raise ValueError(
            f"mixing needs at least 4 draws a chain: anneal with n_extra >= 4 thin; got {len(drawn)} draws."
        )
    shape = (int(samples.info["n_chains"]), len(drawn), samples.n)
    return samples.weights.reshape(shape).astype(np.float32), int(drawn[1] - drawn[0])


def _decay(weights: Array) -> Array:
    """Return ⟨w(t), w(t + lag)⟩/n averaged over chains and t, for lags up to half the draws."""
    draws, n = weights.shape[1:]
    lags = np.arange(draws // 2)
    gram = np.einsum("ctn,csn->ts", weights, weights, optimize=True) / (n * len(weights))
    return np.array([np.diagonal(gram, lag).mean() for lag in lags])


def _between(weights: Array) -> float:
    chains, _, n = weights.shape
    if chains < 2:
        raise ValueError("mixing compares chains: it needs at least two.")
    means = weights.mean(axis=1)
    total, own = means.sum(axis=0), (means * means).sum()
    return float((total @ total - own) / (n * chains * (chains - 1)))


def _integrated(correlation: Array) -> float:
    """Return 1 + 2 Σ correlation, up to Sokal's window; infinite where the window never closes."""
    times = 2 * np.cumsum(correlation) - 1
    closed = np.flatnonzero(np.arange(len(times)) >= _WINDOW * times)
    return float(max(times[closed[0]], 1.0)) if len(closed) else np.inf
