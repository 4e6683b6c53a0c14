"""Compiled products and elementwise kernels against the same in array arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.kernels import amp
from solspace.samplers.kernels.amp import in_arrays, respond_into
from solspace.samplers.kernels.products import Products
from solspace.samplers.marginals.messages import Messages, columns

pytestmark = pytest.mark.slow


def problem_of(kind, m, n, rng):
    matrix = rng.choice([-1, 1], (m, n)) if kind == "binary" else rng.standard_normal((m, n)).astype(kind)
    return ss.Perceptron(matrix)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("kind", ["binary", "float32", "float64"])
def test_products_of_every_type_and_width(kind, dtype, rng):
    """Shapes that leave rests in every tile: rows, depth, columns."""
    for m, n, k in [(1, 1, 1), (7, 5, 2), (102, 391, 4), (45, 2300, 11), (131, 1031, 17), (53, 700, 50), (397, 90, 70)]:
        problem = problem_of(kind, m, n, rng)
        products, x = Products(problem, dtype), problem.patterns.astype(float)
        means, responses = columns(n, k, dtype), columns(m, k, dtype)
        means[:, :k], responses[:, :k] = rng.standard_normal((n, k)), rng.standard_normal((m, k))
        close = {"rtol": 0, "atol": 3e-6 if dtype == "float32" else 1e-13}
        for product, squares, given, matrix, out in [
            (products.forward, False, means, x / np.sqrt(n), columns(m, k, dtype)),
            (products.backward, False, responses, x.T / np.sqrt(n), columns(n, k, dtype)),
            (products.forward, True, means, x**2 / n, columns(m, k, dtype)),
            (products.backward, True, responses, x.T**2 / n, columns(n, k, dtype)),
        ]:
            result = product(given, out, squares)
            expected = matrix @ given.astype(float)
            scale = np.abs(matrix) @ np.abs(given.astype(float)) + 1
            np.testing.assert_allclose((result / scale)[:, :k], (expected / scale)[:, :k], **close)


def test_a_column_does_not_depend_on_its_neighbours(rng):
    products = Products(problem_of("binary", 60, 1003, rng), "float32")
    for k, fewer in [(70, 25), (16, 3), (70, 1)]:
        wide, few = columns(1003, k, "float32"), columns(1003, fewer, "float32")
        wide[:, :k] = rng.standard_normal((1003, k))
        few[:, :fewer] = wide[:, 5 : 5 + fewer]
        whole = products.forward(wide, out=columns(60, k, "float32"))[:, 5 : 5 + fewer]
        np.testing.assert_array_equal(whole, products.forward(few, out=columns(60, fewer, "float32"))[:, :fewer])


def test_threads_change_nothing(rng):
    import numba

    products = Products(problem_of("binary", 301, 500, rng), "float32")
    given = columns(500, 20, "float32")
    given[...] = rng.standard_normal(given.shape)
    before = numba.get_num_threads()
    try:
        results = []
        for threads in {1, min(2, numba.config.NUMBA_NUM_THREADS)}:
            numba.set_num_threads(threads)
            results.append(products.forward(given, out=columns(301, 20, "float32")))
    finally:
        numba.set_num_threads(before)
    assert all(np.array_equal(results[0], other) for other in results)


def respond_in_arrays(product, g, variance, weight, target, new, curvature):
    product -= variance * g
    product -= product.dtype.type(target.margin)
    respond_into(target, product, variance, (new, curvature))
    moving = weight > 0
    g[:, moving] += weight[moving] * (new[:, moving] - g[:, moving])
    return curvature.mean(axis=0), (curvature * curvature).mean(axis=0)


@pytest.mark.parametrize("prior", ["binary", "spherical"])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("k", [1, 3, 6, 20])
def test_compiled_iteration_is_the_plain_one(prior, full, k, monkeypatch):
    target = ss.Target(prior, "log", 0.4, margin=-0.3)
    problem = ss.Perceptron.random(151, 0.6, target, patterns="gaussian", rng=3)
    compiled, reference = (Messages(problem, k, "float64", full=full, spreads=True) for _ in range(2))
    for messages in (compiled, reference):
        messages.field[:, :k], messages.time[...] = np.random.default_rng(k).standard_normal((151, k)), 0.7
    weight = np.linspace(0.3, 1, k)
    for turn in range(4):
        weight[0] = 0 if turn == 2 else 0.8
        kept = compiled.mean[:, 0].copy()
        one = compiled.iterate(weight)
        with monkeypatch.context() as patch:
            patch.setattr(amp, "respond", respond_in_arrays)
            patch.setattr(amp, "estimate", in_arrays)
            two = reference.iterate(weight)
        assert turn != 2 or np.array_equal(kept, compiled.mean[:, 0])
    # compiled loops floor the variance of a ±1 weight at 1e-7
    np.testing.assert_allclose(np.array(one), np.array(two), rtol=1e-8)
    for own, other in zip(compiled.state().values(), reference.state().values()):
        np.testing.assert_allclose(own[..., :k], other[..., :k], rtol=1e-8, atol=1.1e-7)


def test_single_precision_stays_close(rng):
    problem = ss.Perceptron.random(401, 0.4, rng=1)
    single, double = Messages(problem, 5, "float32"), Messages(problem, 5, "float64")
    for messages in (single, double):
        messages.field[:, :5], messages.time[...] = np.random.default_rng(0).standard_normal((401, 5)), 1.0
        for _ in range(15):
            messages.iterate(np.ones(5))
    np.testing.assert_allclose(single.mean[:, :5], double.mean[:, :5], atol=2e-5)
