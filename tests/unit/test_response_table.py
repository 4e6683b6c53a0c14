"""Tabulated responses against integrated ones, and where the table must not be used."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.measure.potentials import as_potential
from solspace.samplers.kernels import responses as response_table
from solspace.samplers.kernels.amp import respond_into
from solspace.samplers.kernels.responses import ResponseTable, by_quadrature, table_for
from solspace.samplers.marginals.messages import Messages

pytestmark = pytest.mark.slow


class Cubic:
    breakpoints = (0.0,)

    def log_weight(self, s):
        return np.where(s > 0, 3 * np.log(np.maximum(s, 1e-300)) - s**2 / 4, -np.inf)


class Window:
    """Two walls: at small variances the grid is too coarse for the second."""

    breakpoints = (0.0, 2.0)

    def log_weight(self, s):
        return np.where((s > 0) & (s < 2), 0.0, -np.inf)


def compare(potential, beta, variance, rng, k=2):
    """Return the largest errors of √V g and V dg, relative to 1 + their size, with scalar and with full variances."""
    potential = as_potential(potential)
    table = ResponseTable(potential, beta)
    sigma = np.sqrt(variance)
    omega = np.maximum(rng.normal(0.7, 1.0, (150, k)), -6 * sigma).astype(np.float32)
    spread = (variance * np.linspace(1, 1.2, k)).astype(np.float32)
    errors = []
    for own in (spread, (spread * rng.uniform(0.8, 1.2, omega.shape)).astype(np.float32)):
        found = np.empty_like(omega), np.empty_like(omega)
        table.respond_into(omega, own, found)
        exact = potential.derivatives(omega.astype(float), np.broadcast_to(own.astype(float), omega.shape), beta)
        for value, truth, scale in zip(found, exact, (np.sqrt(own), own)):
            errors.append(np.max(np.abs(value - truth) * scale / (1 + np.abs(truth) * scale)))
    return max(errors), all(table.sound.values())


@pytest.mark.parametrize("variance", [0.9, 0.05, 1e-3])
@pytest.mark.parametrize("potential", ["tau(0.5)", Cubic(), "hinge"], ids=["tau", "own", "hinge"])
def test_the_table_is_the_channel(potential, variance, rng):
    error, sound = compare(potential, 1.4, variance, rng)
    assert error < 1e-6
    assert sound


def test_what_the_grid_cannot_follow_is_integrated(rng):
    error, sound = compare(Window(), 1.0, 1e-3, rng)
    assert error < 1e-6
    assert not sound


def test_far_fields_are_integrated():
    table, potential = ResponseTable(as_potential("tau(0.5)"), 2.0), as_potential("tau(0.5)")
    omega = np.array([[-35.0], [25.0], [0.3], [np.nan]], np.float32)
    g, dg = np.empty_like(omega), np.empty_like(omega)
    table.respond_into(omega, np.ones(1, np.float32), (g, dg))
    exact, _ = potential.derivatives(omega[:3].astype(float), 1.0, 2.0)
    np.testing.assert_allclose(g[:3], exact, rtol=1e-5)
    assert np.isnan(g[3, 0])


def test_only_long_single_precision_work_without_a_closed_form_is_tabulated():
    many, few, one = np.zeros((3000, 1), np.float32), np.zeros((30, 1), np.float32), np.ones(1, np.float32)
    tau = as_potential("tau(0.5)")
    assert table_for(tau, 2.0, many, one) is table_for(tau, 2.0, many, one)
    assert table_for(tau, 2.0, few, one) is None
    assert table_for(tau, 2.0, many.astype(float), one) is None
    assert table_for(tau, 2.0, many, np.array([np.nan], np.float32)) is None
    closed = ["log", "uniform", "hinge", "errors", "band(1.0)", "log_quadratic(1.0, 0.9)", "tau(0.0)"]
    assert not any(by_quadrature(as_potential(name)) for name in closed)
    assert by_quadrature(as_potential(Cubic()))


@pytest.mark.parametrize("full", [False, True])
def test_iterations_with_the_table_follow_the_exact_ones(full, rng):
    """At a margin: the table is read at ω - κ."""
    target = ss.Target("binary", Cubic(), 0.8, margin=0.2)
    problem = ss.Perceptron.random(301, 0.4, target, patterns="gaussian", rng=1)
    start = rng.standard_normal((301, 3))
    results = []
    for dtype in ("float32", "float64"):
        messages = Messages(problem, 3, dtype, full=full)
        messages.field[:, :3], messages.time[...] = start, 1.0
        for _ in range(4):
            messages.iterate(np.ones(3))
        results.append(messages.mean[:, :3])
    np.testing.assert_allclose(*results, atol=3e-5)


def test_a_wrong_table_would_be_noticed(monkeypatch, rng):
    target = ss.Target("binary", "tau(0.5)", 0.7)
    omega, variance = rng.normal(0.7, 1, (2500, 1)).astype(np.float32), np.array([0.3], np.float32)
    tabulated, exact = (np.empty_like(omega), np.empty_like(omega)), (np.empty_like(omega), np.empty_like(omega))
    respond_into(target, omega, variance, tabulated)
    monkeypatch.setattr(response_table, "WORTHWHILE", 10**9)
    respond_into(target, omega[:100], variance, tuple(part[:100] for part in exact))
    np.testing.assert_allclose(tabulated[0][:100], exact[0][:100], atol=2e-6)
    assert np.abs(tabulated[0][:100] * np.sqrt(0.3 / 0.33) - exact[0][:100]).max() > 1e-3
