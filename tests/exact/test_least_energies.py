"""The bound that rejects proposals on real-valued patterns: never above the integer energies, so that no chain changes."""

from dataclasses import replace

import numba
import numpy as np
import pytest

import solspace as ss
from solspace.numerics.arrays import aligned
from solspace.samplers.annealing import cpu, real_forms
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels import energies, flips_real


@numba.njit
def both(states, size, columns, logarithm, form, mark, met, out):
    """Write for every state and sign the bound and the integer energy after the first column's flip."""
    for row in range(len(out)):
        at = row * size
        energy = flips_real._here(states, at, size, columns, 0, form, mark)
        least, scale = energies.bound(size, energy, met[row], logarithm, form)
        down = energies.product_down(states, at, size, columns, 0, scale)
        up = energies.product_up(states, at, size, columns, 0, scale)
        out[row, 0] = least - logarithm * np.log(down)
        out[row, 1] = flips_real._down(states, at, size, columns, 0, form, mark)
        out[row, 2] = least - logarithm * np.log(up)
        out[row, 3] = flips_real._up(states, at, size, columns, 0, form, mark)


@pytest.mark.parametrize(("n", "m"), [(41, 1), (301, 120), (201, 3000)])
@pytest.mark.parametrize("temperature", [0.02, 0.5, 50.0])
def test_the_bound_is_one(n, m, temperature):
    """Over stabilities on either side of the wall, next to it and far from it; and it is close where all are met."""
    rng = np.random.default_rng(m)
    problem = ss.Perceptron(rng.normal(size=(m, n)), target=ss.Target(temperature=temperature))
    fixed = real_forms.FixedPoint(problem)
    made = real_forms.forms([Stage.of(problem.target)], [fixed], True).of(0)
    size, reach = fixed.columns.shape[1], min(4.0 / fixed.unit, fixed.reach / 2)
    states = aligned((60, size), np.int32)
    states[:20] = 1 + reach * rng.random((20, size))
    states[20:40] = reach * (rng.random((20, size)) - 0.1)
    states[40:50] = rng.integers(-2, 3, (10, size))
    states[50:] = np.exp(rng.uniform(0, np.log(reach), (10, size)))
    out, law = np.empty((len(states), 4)), (made.logarithm[0], made.forms[0], made.marks[0])
    both(states.reshape(-1), size, fixed.columns.reshape(-1), *law, (states > 0).all(axis=1), out)
    assert (out[:, [0, 2]] <= out[:, [1, 3]]).all()
    # where nothing is near the wall it misses by the rounding that it allows for
    states[...] = reach * (0.5 + 0.5 * rng.random(states.shape))
    both(states.reshape(-1), size, fixed.columns.reshape(-1), *law, np.ones(len(states), bool), out)
    assert (out[:, [1, 3]] - out[:, [0, 2]] < size * (2 + 3e-5 * made.logarithm[0])).all()


@pytest.mark.parametrize("x", [-1e9, -700.0, -689.0, -1.0, 0.0, 0.3, 5.0, 689.0, 1e9])
def test_the_exponential_is_one_from_below(x):
    exact = np.exp(min(x, 690.0))
    assert (0.993 if x > -690 else 0) * exact <= energies.exp_at_most(x) <= exact


def chains_of(problem, first, field, sweeps=6):
    draws = np.full(sweeps, -1)
    draws[-1] = 0
    plan = Plan([Stage.of(problem.target)] * sweeps, 0, draws, solve=False, target=problem.target)
    chains = Chains.start(first.copy(), plan, field)
    flips = cpu.RealFlips(problem, plan, 7, len(first), 1)
    flips.place(chains)
    flips.walk(flips.prepare(slice(0, sweeps)), chains, slice(0, len(first)))
    return chains


@pytest.mark.parametrize(
    "target", [ss.Target(), ss.Target(margin=-0.4, temperature=0.2), ss.Target(potential="wall(0.2)")]
)
def test_chains_are_the_same_without_it(target, monkeypatch):
    """From weights that violate constraints to where most flips are rejected, in a field; a wrong bound would be seen."""
    rng = np.random.default_rng(3)
    planted, patterns = rng.choice([-1, 1], 257), rng.normal(size=(100, 257))
    problem = ss.Perceptron(patterns * np.sign(patterns @ planted)[:, None], target=target)
    first = (planted * rng.choice([-1, 1], p=(0.1, 0.9), size=(5, 257))).astype(np.int8)
    field = planted + rng.normal(size=first.shape)
    assert problem.violations(first).all()
    usual, forms = chains_of(problem, first, field), real_forms.forms
    assert 0 < usual.accepted[:, -1].mean() < 0.25 * problem.n

    def scaled(share):
        def made(*given):
            found = forms(*given)
            return replace(found, logarithm=share * found.logarithm)

        monkeypatch.setattr(real_forms, "forms", made)
        return chains_of(problem, first, field)

    plain = scaled(0.0)
    assert (plain.weights == usual.weights).all()
    assert (plain.accepted == usual.accepted).all()
    assert (plain.energy == usual.energy).all()
    assert (scaled(0.9).accepted != usual.accepted).any()
