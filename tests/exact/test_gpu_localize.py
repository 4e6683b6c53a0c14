"""Localization on a device agrees with the processor's at the same noise.

The CUDA sources run thread by thread on the processor, and on a device where there is one.
"""

from __future__ import annotations

import numpy as np
import pytest
from test_gpu_flips import emulated  # noqa: F401

import solspace as ss
from solspace.samplers import device
from solspace.samplers.gpu_messages import _MIDDLE, response_table, supported
from solspace.samplers.localize import localize


def both(n, k, alpha, **options):
    problem = ss.Perceptron.random(n=n, alpha=alpha, rng=1)
    return [localize(problem, k, rng=2, device=where, progress=False, **options) for where in ("gpu", "cpu")]


def test_cuda_sources_localize_as_the_processor_does(emulated):  # noqa: F811
    there, here = both(41, 2, 0.3, final_time=2.0, step=0.4)
    np.testing.assert_allclose(there.info["overlap"], here.info["overlap"], atol=2e-5)
    np.testing.assert_allclose(there.info["instability"], here.info["instability"], atol=2e-4)
    assert abs(there.info["iterations"].sum() - here.info["iterations"].sum()) <= 4
    np.testing.assert_array_equal(there.weights, here.weights)


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0])
def test_the_table_of_responses_holds_the_channel(temperature):
    problem = ss.Perceptron.random(n=11, alpha=0.5, target=ss.Target(temperature=temperature), rng=0)
    table = response_table(problem).astype(float)
    x = np.linspace(-3.99, 11.9, 501)
    _, g, dg = problem.target.channel(x, 1.0)
    t = (x + 4) * (_MIDDLE / 16)
    cell = np.floor(t).astype(int)
    f = (t - cell)[:, None]
    weights = (-f * (f - 1) * (f - 2) / 6, (f + 1) * (f - 1) * (f - 2) / 2, -(f + 1) * f * (f - 2) / 2)
    found = sum(w * table[cell + k] for k, w in enumerate((*weights, (f + 1) * f * (f - 1) / 6)))
    np.testing.assert_allclose(found[:, 0], g, rtol=2e-6)
    np.testing.assert_allclose(found[:, 1], dg, rtol=1e-5, atol=1e-6)


def test_what_a_device_does_not_know_gets_a_sentence():
    spherical = ss.Perceptron.random(n=11, alpha=0.5, target=ss.Target(prior="spherical"), rng=0)
    assert "±1 weights only" in supported(spherical, False, np.float32)
    problem = ss.Perceptron.random(n=11, alpha=0.5, rng=0)
    assert "float32" in supported(problem, False, np.float64)
    assert "variances='scalar'" in supported(problem, True, np.float32)
    assert supported(problem, False, np.float32) == ""


@pytest.mark.gpu
@pytest.mark.skipif(bool(device.missing()), reason="no CUDA device with CuPy")
@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_a_device_localizes_as_the_processor_does(alpha):
    there, here = both(1001, 16, alpha)
    assert (there.weights == here.weights).mean() > 0.999
    np.testing.assert_allclose(there.info["overlap"][:5], here.info["overlap"][:5], atol=1e-5)
