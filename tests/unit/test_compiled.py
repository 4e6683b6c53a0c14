"""Compiled code must run where its cache cannot be kept, and elsewhere be read back."""

import importlib
import os
import pkgutil
import runpy
import subprocess
import sys

import numba
import numba.core.caching as caching
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

from solspace.measure.channels import power_channel
from solspace.numerics.power import gaussian_power_derivatives
from solspace.numerics.power_table import negative_moments, positive_moments
from solspace.system.compiled import njit
from solspace.system.threads import PIECE, split


def compiling_modules():
    """Return the modules that compile code."""
    modules = [importlib.import_module(f"solspace.{name}") for name in ("numerics.kernels", "numerics.power")]
    kernels = importlib.import_module("solspace.samplers.kernels")
    names = [info.name for info in pkgutil.iter_modules(kernels.__path__, kernels.__name__ + ".") if not info.ispkg]
    return modules + [importlib.import_module(name) for name in names]


def triple(x):
    return 3 * x


def test_runs_where_no_cache_folder_can_be_found(monkeypatch):
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    assert njit()(triple)(2) == 6


@pytest.mark.parametrize("method", ["save", "load"])
def test_runs_where_the_cache_cannot_be_used(monkeypatch, method):
    def refuse(*arguments):
        raise OSError("disk full")

    monkeypatch.setattr(caching.IndexDataCacheFile, method, refuse)
    assert njit()(triple)(2.5) == 7.5


MODULE = """
from solspace.system.compiled import njit

@njit()
def triple(x):
    return 3 * x
"""


@pytest.mark.parametrize("kind", ["nbi", "nbc"])
@pytest.mark.parametrize(
    "damage",
    [lambda b: b"", lambda b: b[:20], lambda b: b[:-5], lambda b: b"\xff" + b, lambda b: b"cnowhere\nnothing\n."],
)
def test_a_damaged_cache_file_counts_as_none_and_is_made_anew(tmp_path, monkeypatch, kind, damage):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "module.py").write_text(MODULE)

    def hits():
        """Return how often a fresh import finds its compiled code in the cache."""
        triple = runpy.run_path(str(tmp_path / "module.py"))["triple"]
        assert triple(2.5) == 7.5
        return sum(triple.stats.cache_hits.values())

    assert [hits(), hits()] == [0, 1]
    for path in (tmp_path / "cache").rglob(f"*.{kind}"):
        path.write_bytes(damage(path.read_bytes()))
    assert [hits(), hits()] == [0, 1]


def test_package_imports_no_numba():
    code = "import sys, solspace, solspace.measure.channels; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("beta", [2.0, 1.25])
def test_compiled_loops_equal_the_integrals(beta):
    single = np.linspace(-40.0, 40.0, 3000, dtype=np.float32).reshape(600, 5)
    omega, variance = single.astype(float), np.linspace(0.5, 2.0, 5)
    sigma = np.sqrt(variance)
    x = (omega / sigma).ravel()
    left, right = x[x < 0], x[x >= 0]
    log_i, mean, below = negative_moments(left, beta)
    exact = np.empty((3, x.size))
    exact[:, x < 0], exact[:, x >= 0] = (log_i - left**2 / 2, mean - left, below), positive_moments(right, beta)
    log_i, rho, curvature = (part.reshape(600, 5) for part in exact)
    plain = log_i + 0.5 * beta * np.log(variance), rho / sigma, curvature / variance
    for one, other in zip(power_channel(omega, variance, beta), plain):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    for one, other in zip(gaussian_power_derivatives(single, variance, beta), plain[1:]):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-36)


def test_threads_share_everything_once():
    seen = np.zeros(5 * PIECE + 17, dtype=np.int64)

    def task(start, stop):
        assert start % 100 == 0
        seen[start:stop] += 1

    split(task, seen.size, 100, PIECE)
    assert (seen == 1).all()


def test_threads_pass_on_errors():
    def task(start, stop):
        raise ValueError("in a piece")

    with pytest.raises(ValueError, match="in a piece"):
        split(task, 5 * PIECE)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_results_do_not_depend_on_the_number_of_threads(monkeypatch, dtype, beta):
    omega = (4 * np.random.default_rng(0).standard_normal((6001, 67))).astype(dtype)
    results = []
    for threads in (1, 2, 3):
        monkeypatch.setattr("solspace.system.threads._allowed", lambda threads=threads: threads)
        results.append(gaussian_power_derivatives(omega, np.linspace(0.1, 2, 67), beta))
    for g, dg in results[1:]:
        np.testing.assert_array_equal(g, results[0][0])
        np.testing.assert_array_equal(dg, results[0][1])


def test_code_of_other_arguments_counts_as_none(tmp_path, monkeypatch):
    """Two processes that save at once can leave one's code under the other's name."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "module.py").write_text(MODULE)

    def fresh():
        return runpy.run_path(str(tmp_path / "module.py"))["triple"]

    made = fresh()
    assert made(2.5) == 7.5
    assert made(np.ones(2, np.float32)).sum() == 6
    first, second = sorted((tmp_path / "cache").rglob("*.nbc"))
    one, other = first.read_bytes(), second.read_bytes()
    first.write_bytes(other)
    second.write_bytes(one)
    again = fresh()
    assert again(2.5) == 7.5
    assert again(np.ones(2, np.float32)).sum() == 6
    assert sum(again.stats.cache_hits.values()) == 0
    healed = fresh()
    assert healed(2.5) == 7.5
    assert healed(np.ones(2, np.float32)).sum() == 6
    assert sum(healed.stats.cache_hits.values()) == 2


VARIANTS = """
import itertools, sys
import numba
import numpy as np
from numba.core.bytecode import FunctionIdentity
from solspace.system.compiled import njit, variant

def times(factor):
    @numba.njit(inline="never")
    @variant(factor)
    def product(x):
        total = 0
        for i in range(x):
            total += (i ^ factor) * factor + int(np.log1p(i)) * (total % 7)
            for j in range(3):
                total += (i >> j) * factor - int(np.sqrt(total % 1000)) * (factor % 3)
        return total  # so long that LLVM does not inline it

    return product

one, million = times(1), times(1000003)

@njit()
def both(x, y):
    return one(x), million(x)

FunctionIdentity._unique_ids = itertools.count(int(sys.argv[1]))
for y in sys.argv[2:]:
    assert both(5, float(y) if "." in y else int(y)) == (one(5), million(5)), y
"""


def test_variants_of_one_function_are_told_apart_in_code_that_two_processes_cached(tmp_path):
    script = tmp_path / "variants.py"
    script.write_text(VARIANTS)
    # the counter of the second process begins so that its first variant has the number of the first one's second
    for arguments in (["100", "1"], ["102", "1.0"], ["1", "1", "1.0"]):
        subprocess.run(
            [sys.executable, script, *arguments], check=True, env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        )


def test_every_compiled_function_of_the_package_has_a_name_of_its_own():
    seen = {}
    for module in compiling_modules():
        for value in vars(module).values():
            if isinstance(value, Dispatcher):
                name = value.py_func.__module__, value.py_func.__qualname__
                assert seen.setdefault(name, value) is value, name
    assert len(seen) > 50
