"""The end of a localization of levels: a draw from p(w, b) exp(⟨h, w⟩ - t |w|²/2) by heat bath, as `finish` makes of ±1 weights.

Also of ±1 weights with an intercept b, clamped or sample weights. Of what is drawn only the weights are used: an intercept is
drawn from its law given them (`intercepts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solspace.measure.priors import Levels
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Run, run_to_end
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.levels import POWERS, spacing
from solspace.samplers.localization.finish import MIXED, Bath, Draw
from solspace.samplers.localization.intercepts import draw_intercepts
from solspace.samplers.marginals.factors import Factors
from solspace.samplers.marginals.messages import SampleColumns


def lacks_moves(problem: Perceptron) -> str:
    """Return in a sentence why weights of a problem cannot be moved at the end of a localization; empty if they can."""
    prior, powers = problem.target.prior, problem.sample_weight
    if prior.name not in ("binary", "levels"):
        return f"finish moves weights on levels, ±1 among them; with {prior} weights leave it out."
    if powers is not None and powers.max() >= 2.0**POWERS * powers.min():
        return f"finish takes sample weights within a factor of 2^{POWERS}; leave it out."
    try:
        spacing(np.array(prior.values if isinstance(prior, Levels) else (-1.0, 1.0)))
    except ValueError as error:
        return str(error)
    return ""


@dataclass(frozen=True)
class LevelBath(Bath):
    """The heat bath of one problem; random numbers depend on (seed, sample, turn) alone."""

    @cached_property
    def factors(self) -> Factors:
        return Factors(self.problems[0])

    def draw(self, samples: SampleColumns, lanes: Array, turn: int) -> Draw:
        (problem,), (key,) = self.problems, self.keys(turn)
        number = (2 * lanes[:, None] + np.arange(2)).ravel()
        first = np.repeat(samples.means()[lanes], 2, axis=0)
        spread = np.sqrt(np.maximum(np.asarray(samples.spreads(), float), 0))
        wide = np.broadcast_to(spread, samples.mean.shape)[:, lanes].T
        first += np.repeat(wide, 2, axis=0) * [
            generator(key, i).standard_normal(first.shape[1]) for i in number.tolist()
        ]
        # the type of clamped weights is that of the others
        weights = self.factors.whole(problem.target.prior.decode(first))
        field, time = self.factors.whole(samples.fields()[lanes], fill=False), samples.times[lanes]
        flips = cpu_flips(problem, self.plan, key, len(number))
        shifts = flips.first_intercepts()
        shifts[...] = 0
        chains = Chains.start(
            weights, self.plan, np.repeat(field, 2, axis=0), number, intercepts=shifts, time=np.repeat(time, 2)
        )
        run_to_end(Run(flips, chains, self.plan))
        # (samples, replicas, draws, n)
        drawn = chains.draws.reshape(-1, 2, 2, problem.n)
        values = drawn.astype(np.float64)
        own = np.einsum("krn,krn->k", values[:, :, 0], values[:, :, 1]) / (2 * problem.n)
        cross = np.einsum("kdn,kdn->k", values[:, 0], values[:, 1]) / (2 * problem.n)
        size = np.square(values).mean(axis=(1, 2, 3))
        found = drawn[:, 0, 1]
        shift = None if problem.intercept is None else chains.shifts.reshape(-1, 2, 2)[:, 0, 1]
        free = found[:, self.factors.free]
        return Draw(
            free.__getitem__, problem.violations(found, shift), np.asarray(own - cross <= MIXED * (size - cross))
        )

    def missed(self, numbers: Array, weights: Array) -> Array:
        (problem,), whole = self.problems, self.factors.whole(weights)
        if problem.intercept is None:
            return np.asarray(problem.violations(whole))
        return np.asarray(problem.violations(whole, draw_intercepts(problem, whole, self.seeds[0])))
