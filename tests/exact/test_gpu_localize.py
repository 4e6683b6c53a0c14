"""Localization on a device agrees with the processor's at the same noise.

The CUDA sources run thread by thread on the processor, and on a device where there is one.
"""

from __future__ import annotations

from types import SimpleNamespace

import emulated_cupy
import numpy as np
import pytest
from test_gpu_flips import emulated  # noqa: F401

import solspace as ss
from solspace.experiments import device as sweeps
from solspace.experiments.tasks import Task, problem_of
from solspace.numerics.streams import seed_sequence
from solspace.samplers import device
from solspace.samplers.annealing import gpu
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.kernels.philox import GpuNoise, Noise, tilted_weights
from solspace.samplers.localization.finish import GpuBath
from solspace.samplers.localization.localize import localize
from solspace.samplers.marginals import gpu as gpu_messages
from solspace.samplers.marginals import gpu_problem
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.gpu_problem import (
    FIELD_STEP,
    LEAST,
    MIDDLE,
    OUTERMOST,
    ROW_STEP,
    GpuPatterns,
    GpuSigns,
    response_table,
    supported,
)
from solspace.samplers.packed import PackedPerceptron

CHANNELS = {
    "log": ss.Target(temperature=0.7, margin=0.2),
    "uniform": ss.Target(potential="uniform", margin=-0.2),
    "tilted": ss.Target(potential=ss.potentials.LogQuadratic(1.01, 0.91), temperature=1 / 1.2, margin=0.1),
    "errors": ss.Target(potential="errors", temperature=0.3, margin=0.2),
    "hinge": ss.Target(potential="hinge", temperature=0.3, margin=0.2),
    "band": ss.Target(potential="band(1.2)"),
    "log_band": ss.Target(potential="log_band(1.1, -0.2)", temperature=0.7),
    "wall above": ss.Target(potential=ss.potentials.wall(None, 0.4), temperature=0.7),
    "walls beside zero": ss.Target(potential=ss.potentials.wall(-0.7, 1.9), temperature=0.5, margin=0.1),
    "sphere": ss.Target(prior="spherical", potential="uniform", margin=-0.5),
    "sphere log": ss.Target(prior="spherical", temperature=0.5, margin=-1.0),
}
SHORT = {"final_time": 2.0, "step": 0.4}


def both(problem, k, **options):
    return [localize(problem, k, rng=2, device=where, progress=False, **options) for where in ("gpu", "cpu")]


def agree(there, here, overlap=3e-5):
    np.testing.assert_allclose(there.info["overlap"], here.info["overlap"], atol=overlap)
    np.testing.assert_allclose(there.info["instability"], here.info["instability"], atol=3e-4)
    assert abs(there.info["iterations"].sum() - here.info["iterations"].sum()) <= 6
    np.testing.assert_allclose(there.weights, here.weights, atol=2e-3)


@pytest.mark.filterwarnings("ignore:.*miss constraints")
@pytest.mark.parametrize("name", CHANNELS)
def test_cuda_sources_localize_as_the_processor_does(emulated, name):  # noqa: F811
    problem = ss.Perceptron.random(n=41, alpha=0.3, target=CHANNELS[name], rng=1)
    agree(*both(problem, 2, **SHORT))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*miss constraints")
def test_a_device_sharpens_its_tolerance_near_instability(emulated):  # noqa: F811
    """On the sphere near its threshold; 0.1 left a factor out on the device, and overlaps were off by 7e-4."""
    target = ss.Target(prior="spherical", potential="uniform", margin=-2.1)
    problem = ss.Perceptron.random(n=61, alpha=25.0, target=target, rng=1)
    there, here = both(problem, 2, final_time=3.0)
    assert np.nanmax(here.info["instability"]) > 0.1
    np.testing.assert_allclose(there.info["overlap"], here.info["overlap"], atol=3e-6)


@pytest.mark.filterwarnings("ignore:.*miss constraints")
def test_patterns_of_any_values_localize_as_on_the_processor(emulated):  # noqa: F811
    problem = ss.Perceptron.random(n=41, alpha=0.3, patterns="gaussian", rng=1)
    agree(*both(problem, 2, variances="scalar", **SHORT))


def split_product(self, given, out, transposed, weight=None):
    """Multiply numbers of bfloat16 as the tensor cores do."""
    left, right = ((part.astype(np.uint32) << 16).view(np.float32) for part in (self.matrix, given))
    out[...] = (left.transpose(0, 2, 1) if transposed else left) @ right


@pytest.mark.filterwarnings("ignore:.*miss constraints")
def test_operands_split_in_three_lose_nothing(emulated, monkeypatch):  # noqa: F811
    monkeypatch.setattr(gpu_problem, "_blas", lambda: True)
    monkeypatch.setattr(GpuPatterns, "product", split_product)
    monkeypatch.setattr(gpu_messages, "FEW", 0)
    problem = PackedPerceptron(41, 12, CHANNELS["log"], rng=1)
    there, here = both(problem, 2, **SHORT)
    agree(there, here)
    np.testing.assert_array_equal(there.stabilities, problem.stabilities(there.weights))


@pytest.mark.parametrize("k", [1, 3, 8])
def test_products_with_bits_are_those_with_signs(emulated, k, monkeypatch):  # noqa: F811
    """Sizes that fill no word, no block and no stage; problems given as signs and as bits, alone or not, in any blocks."""
    m, n = 141, 1099
    problems = [ss.Perceptron.random(n=n, alpha=m / n, rng=1), PackedPerceptron(n, m, ss.Target(), rng=2)]
    bits, rng = GpuSigns(problems), np.random.default_rng(0)
    matrices = np.array([problem.patterns for problem in problems], float)
    for transposed, left in ((False, matrices), (True, matrices.transpose(0, 2, 1))):
        given = rng.standard_normal((2, left.shape[2], k)).astype(np.float32)
        out = np.full((2, left.shape[1], k), np.nan, np.float32)
        bits.product(given, out, transposed, np.ones(2 * k, np.float32))
        np.testing.assert_allclose(out, left @ given, atol=1e-4)
        few = bits.of(np.array([1]))
        with monkeypatch.context() as patched:
            patched.setattr(gpu_problem, "_ROWS", 64)
            patched.setattr(gpu_problem, "_RUN", dict.fromkeys(gpu_problem._RUN, 4))
            few.product(given[1:], out[:1], transposed, np.ones(k, np.float32))
        np.testing.assert_array_equal(out[0], out[1])
        out[...] = np.nan
        bits.product(given, out, transposed, np.repeat([0.0, 0.5], k).astype(np.float32))
        assert np.isnan(out[0]).all()
        assert np.isfinite(out[1]).all()
    signs = np.sign(rng.standard_normal((2, n, k))).astype(np.int8)
    np.testing.assert_array_equal(bits.stabilities(signs), (matrices @ signs).transpose(0, 2, 1) / np.sqrt(n))


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*miss constraints")
@pytest.mark.parametrize("prior", ["binary", "spherical"])
def test_many_problems_share_a_device(emulated, prior):  # noqa: F811
    """More columns than one iteration's least, so that those that have come to rest are left behind."""
    target = ss.Target(prior=prior, margin=0.0 if prior == "binary" else -0.5)
    problems = [ss.Perceptron.random(n=21, alpha=0.4, target=target, rng=seed) for seed in range(5)]
    together = localize(problems, 9, rng=range(5), device="gpu", progress=False, **SHORT)
    for seed, (problem, there) in enumerate(zip(problems, together)):
        here = localize(problem, 9, rng=seed, progress=False, **SHORT)
        agree(there, here)
        assert there.info["status"] == here.info["status"]


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*miss constraints")
def test_a_sweep_packs_the_samples_of_a_shape(emulated, tmp_path, monkeypatch):  # noqa: F811
    """What their chains walk by is compiled ahead."""
    ahead, used = set(), set()
    monkeypatch.setattr(sweeps, "compile_ahead", ahead.update)
    monkeypatch.setattr(gpu, "kernel", lambda *args, **more: used.add(args[:3:2]) or kernel(*args, **more))
    sampler = {"name": "asl", "step": 0.5, "final_time": 1.0}
    spec = ss.Spec(n=21, alpha=0.3, n_samples=2, instances=3, sampler=sampler, keep=["path"])
    found = [
        {row.task["instance"]: row for row in ss.sweep(one, tmp_path / f"{name}.db", "serial").rows(arrays=True)}
        for name, one in (("gpu", spec.with_options(device="gpu")), ("auto", spec.with_options(device="auto")))
    ]
    assert len(found[0]) == len(found[1]) == 3
    assert {one for one in used if one[0] == "flips_integer"} == ahead
    for number, row in found[0].items():
        problem = problem_of(Task(row.task))
        seeds = [Task(other.task).seed for other in (row, found[1][number])]
        assert seeds[0] != seeds[1]
        here = localize(problem, 2, rng=seeds[0], step=0.5, final_time=1.0, progress=False)
        np.testing.assert_allclose(row.arrays["path_overlap"], here.info["overlap"], atol=3e-5)


@pytest.mark.filterwarnings("ignore:.*miss constraints")
def test_iterations_of_few_samples_are_recorded(emulated, monkeypatch):  # noqa: F811
    """And are the same as those launched one by one; a recording that outlives its device goes without a word."""
    problem = ss.Perceptron.random(n=21, alpha=0.3, rng=1)
    options = {"rng": 2, "device": "gpu", "progress": False, **SHORT}
    before = emulated_cupy.Graph.made
    found = localize(problem, 2, **options)
    assert emulated_cupy.Graph.made > before
    with monkeypatch.context() as patched:
        patched.delattr(emulated_cupy.cuda.Stream, "begin_capture")
        plain = localize(problem, 2, **options)
    np.testing.assert_array_equal(found.weights, plain.weights)
    np.testing.assert_array_equal(found.info["overlap"], plain.info["overlap"])
    with emulated_cupy.failing(150), pytest.raises(device.LostDevice):
        localize(problem, 2, **options)


def test_columns_go_back_to_where_they_were_kept(emulated):  # noqa: F811
    problems = [ss.Perceptron.random(n=41, alpha=2.0, rng=seed) for seed in range(2)]
    messages, rng = GpuMessages(problems, 3), np.random.default_rng(0)
    before, after = ([rng.random(part.shape, np.float32) for part in messages.messages()] for _ in range(2))
    for values, act in ((before, messages.keep), (after, lambda: messages.restore(np.array([1, 5])))):
        for part, value in zip(messages.messages(), values):
            part.set(value)
        act()
    for part, old, new in zip(messages.messages(), before, after):
        back = np.array([False, True, False, False, False, True]).reshape(2, *[1] * (part.ndim - 2), 3)
        shape = (2, 3) if part.ndim == 1 else part.shape
        wanted = np.where(back, old.reshape(shape), new.reshape(shape))
        np.testing.assert_array_equal(np.asarray(part).reshape(shape), wanted)


def test_a_device_draws_the_noise_of_the_processor(emulated):  # noqa: F811
    seeds, n = [seed_sequence(5), seed_sequence(6)], 4001
    there = GpuNoise(seeds, n, 3)
    here = [Noise(seed, np.zeros((n, 3), np.float32)) for seed in seeds]
    for lanes, steps in ((np.arange(6), np.zeros(6, int)), (np.array([0, 2, 4]), np.array([7, 0, 1, 0, 300, 0]))):
        drawn = there.draw(lanes, steps)
        for problem, own in enumerate(here):
            mine = lanes[lanes // 3 == problem] - 3 * problem
            own.draw(mine, steps[3 * problem : 3 * problem + 3])
            np.testing.assert_array_equal(np.asarray(drawn)[problem], own.columns)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_device_begins_its_finish_as_the_processor_does(emulated, kind):  # noqa: F811
    problems = [ss.Perceptron.random(n=41, alpha=3.0, rng=seed) for seed in range(2)]
    bath = GpuBath(problems, [seed_sequence(seed) for seed in range(2)], each=3, sweeps=4)
    field, mean = np.random.default_rng(0).uniform(-1, 1, (2, 2, 41, 3)).astype(kind)
    mean[0, 0], mean[0, 1] = 1, -1
    drift = SimpleNamespace(field=field, mean=mean)
    bath.flips.keys.set(np.array(bath.keys(1), np.uint64))
    weights, fields = bath._begin(drift)
    for problem, key in enumerate(bath.keys(1)):
        here, means = np.empty((6, 41), np.int8), np.repeat(mean[problem].T.astype(float), 2, axis=0)
        tilted_weights(np.uint64(key), np.arange(6), means, here)
        np.testing.assert_array_equal(weights[6 * problem : 6 * problem + 6], here)
        np.testing.assert_array_equal(fields[6 * problem : 6 * problem + 6], np.repeat(field[problem].T, 2, axis=0))
    own = GpuBath(problems, bath.seeds, 3, 4, bits=GpuSigns(problems).columns)
    np.testing.assert_array_equal(own.flips.columns, bath.flips.columns)
    drawn = own.draw(drift, np.array([1, 5]), turn=1)
    taken = drawn.weights(np.ones(2, bool))
    assert drawn.missed.tolist() == [int(problems[i].violations(taken[i])) for i in range(2)]


@pytest.mark.parametrize("temperature", [0.5, 0.7, 1.0])
def test_the_table_of_responses_holds_the_channel(temperature):
    target = ss.Target(temperature=temperature)
    table = response_table(target).astype(float)
    x = np.linspace(-3.99, 11.9, 501)
    _, g, dg = target.channel(x, 1.0)
    t = (x + 4) * (MIDDLE / 16)
    cell = np.floor(t).astype(int)
    f = (t - cell)[:, None]
    weights = (-f * (f - 1) * (f - 2) / 6, (f + 1) * (f - 1) * (f - 2) / 2, -(f + 1) * f * (f - 2) / 2)
    found = sum(w * table[cell + k] for k, w in enumerate((*weights, (f + 1) * f * (f - 1) / 6)))
    np.testing.assert_allclose(found[:, 0], g, rtol=2e-6)
    np.testing.assert_allclose(found[:, 1], dg, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("potential", ["log_band(1)", "log_band(0.5, -0.3)", "band(1)"])
def test_the_plane_of_a_band_holds_the_channel(potential):
    target = ss.Target(potential=potential, temperature=0.7)
    plane, half = response_table(target).astype(float), target.potential.width
    rng = np.random.default_rng(0)
    variance = np.exp(rng.uniform(np.log(5e-6), np.log(4), 400))
    omega = -np.where(
        rng.random(400) < 0.5, half + 3 * np.sqrt(variance) * rng.normal(size=400), rng.uniform(0, half, 400)
    )
    omega = np.minimum(omega, 0.0)
    xi = (half + omega) / np.sqrt(variance)
    places = (np.log(variance) - LEAST) / ROW_STEP, (np.arcsinh(xi) - OUTERMOST) / FIELD_STEP
    cells = [np.floor(place).astype(int) for place in places]
    along, across = (cubic(place - cell) for place, cell in zip(places, cells))
    found = sum(
        along[:, i, None] * across[:, j, None] * plane[cells[0] + i, cells[1] + j] for i in range(4) for j in range(4)
    )
    gamma = found[:, 0] + 0.5 * (np.hypot(1, xi) - xi)
    _, g, dg = target.channel(omega, variance)
    np.testing.assert_allclose(gamma, np.sqrt(variance) * g, rtol=3e-6, atol=3e-6)
    np.testing.assert_allclose(found[:, 1], variance * dg, rtol=3e-5, atol=4e-6)


def cubic(f):
    return np.stack(
        [
            -f * (f - 1) * (f - 2) / 6,
            (f + 1) * (f - 1) * (f - 2) / 2,
            -(f + 1) * f * (f - 2) / 2,
            (f + 1) * f * (f - 1) / 6,
        ],
        axis=1,
    )


def test_what_a_device_does_not_know_gets_a_sentence():
    soft = ss.Perceptron.random(n=11, alpha=0.5, target=ss.Target(potential="tau(0.5)"), rng=0)
    assert "takes the potentials" in supported(soft, False, np.float32)
    problem = ss.Perceptron.random(n=11, alpha=0.5, rng=0)
    assert "float32" in supported(problem, False, np.float64)
    assert "variances='scalar'" in supported(problem, True, np.float32)
    assert supported(problem, False, np.float32) == ""
    with pytest.raises(ValueError, match="a seed for each"):
        localize([problem], rng=[1, 2])
    with pytest.raises(ValueError, match="one seed for one problem"):
        localize(problem, rng=[1, 2])


@pytest.mark.gpu
@pytest.mark.skipif(bool(device.missing()), reason="no CUDA device with CuPy")
@pytest.mark.parametrize("alpha", [0.3, 0.5])
def test_a_device_localizes_as_the_processor_does(alpha):
    there, here = both(ss.Perceptron.random(n=1001, alpha=alpha, rng=1), 16)
    assert (there.weights == here.weights).mean() > 0.999
    np.testing.assert_allclose(there.info["overlap"][:5], here.info["overlap"][:5], atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(bool(device.missing()), reason="no CUDA device with CuPy")
@pytest.mark.filterwarnings("ignore:.*miss constraints")
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
@pytest.mark.parametrize("name", CHANNELS)
def test_every_channel_localizes_on_a_device_as_on_the_processor(name, patterns):
    problem = ss.Perceptron.random(n=301, alpha=0.2, target=CHANNELS[name], patterns=patterns, rng=1)
    there, here = both(problem, 4, variances="scalar", final_time=2.0)
    np.testing.assert_allclose(there.info["overlap"], here.info["overlap"], atol=1e-4)


@pytest.mark.gpu
@pytest.mark.skipif(bool(device.missing()), reason="no CUDA device with CuPy")
@pytest.mark.parametrize("prior", ["binary", "spherical"])
def test_many_problems_on_a_device_are_what_each_is_alone(prior):
    target = ss.Target(prior=prior, margin=0.0 if prior == "binary" else -0.5)
    problems = [ss.Perceptron.random(n=501, alpha=0.3, target=target, rng=seed) for seed in range(6)]
    together = localize(problems, 12, rng=range(6), device="gpu", progress=False)
    for seed, there in enumerate(together):
        here = localize(problems[seed], 12, rng=seed, device="gpu", progress=False)
        np.testing.assert_allclose(there.info["overlap"][:5], here.info["overlap"][:5], atol=1e-5)
        assert np.isclose(there.weights, here.weights, atol=1e-2).mean() > 0.99
