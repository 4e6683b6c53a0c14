"""R-hat and effective size equal ArviZ's; autocorrelation times are those of known processes, or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from solspace.numerics.series import autocorrelation_time, effective_size, split_rhat


def process(rho: float, chains: int, draws: int) -> np.ndarray:
    noise = np.random.default_rng(1).normal(size=(chains, draws))
    series = noise.copy()
    for t in range(1, draws):
        series[:, t] += rho * series[:, t - 1]
    return series


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.9, 0.99])
@pytest.mark.parametrize(("chains", "draws"), [(2, 4), (4, 7), (4, 10), (16, 40), (8, 401)])
def test_arviz_says_the_same(rho: float, chains: int, draws: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ArviZ announces its next version at import
        import arviz
    for series in (process(rho, chains, draws), np.round(process(rho, chains, draws))):
        if np.ptp(series):
            assert split_rhat(series) == pytest.approx(float(arviz.rhat(series)), rel=1e-9)
            assert effective_size(series) == pytest.approx(float(arviz.ess(series)), rel=1e-9)


def test_times() -> None:
    series = process(0.8, 8, 4000)
    assert autocorrelation_time(series) == pytest.approx(9, rel=0.2)
    assert np.isnan(autocorrelation_time(series[:, :100]))
    assert np.isnan(autocorrelation_time(np.ones((4, 100))))


def test_constant_series_have_all_their_draws() -> None:
    assert (split_rhat(np.ones((3, 8))), effective_size(np.ones((3, 8)))) == (1.0, 24.0)
