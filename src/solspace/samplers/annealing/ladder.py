"""Which stages of a schedule replicas should exchange their places at, found from chains that pass through it.

Pilots follow the schedule and leave their weights at some of its last sweeps. With these as samples of two neighbouring
stages i, j, the chance that an exchange between them is accepted is the mean over pairs of

    min(1, exp(-Δ)),    Δ = [E_j(w_i) - E_i(w_i)] + [E_i(w_j) - E_j(w_j)]    (E in kT).

Δ is nearly Gaussian with mean d² and variance 2 d², so that the chance is erfc(d/2), and d is a length that adds up along
the schedule (the Fisher-Rao length). Rungs at equal lengths have equal chances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from scipy.special import erfcinv

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.run import Flips

START = 0.75
"""Where in the schedule the first rung is: at τ = 0.25 chains on images forget where they were within some fifty sweeps."""
ACCEPTED = 0.35
"""Share of the exchanges that should be accepted."""
MOST = 48
"""Rungs, where nobody says how many."""
PILOTS = 16
"""Least number of chains from which a ladder is found."""
_MARKS = 96
"""Sweeps of the schedule at which pilots leave their weights, at the most."""
MakeFlips = Callable[[Plan, int], Flips]
"""(plan, number of chains) -> what moves them."""


def pilot_plan(plan: Plan) -> Plan:
    """Return the schedule of `plan` alone, with draws at the sweeps whose stages may become rungs."""
    if plan.n_anneal < 2:
        raise ValueError("exchange needs a schedule of at least two sweeps, whose stages replicas can be at.")
    frozen = [stage for stage in plan.stages if stage.temperature == 0]
    if frozen:
        raise ValueError("exchange needs a positive temperature at every stage; this schedule has one at T = 0.")
    first = min(int(START * (plan.n_anneal - 1)), plan.n_anneal - 2)
    marks = np.unique(np.rint(np.linspace(first, plan.n_anneal - 1, _MARKS)).astype(int))
    draw_at = np.full(plan.n_anneal, -1)
    draw_at[marks] = np.arange(len(marks))
    return Plan(plan.stages[: plan.n_anneal], plan.n_anneal, draw_at, solve=False)


def choose(make: MakeFlips, pilot: Plan, weights: Array, n_rungs: int | None) -> Array:
    """Return the marks, the last among them, that become rungs, (rungs,); `weights` (pilots, marks, n) were left at them."""
    marks = weights.shape[1]
    if n_rungs is not None and n_rungs > marks:
        raise ValueError(f"n_rungs must be at most {marks}, the stages of this schedule to choose from; got {n_rungs}.")
    along = np.append(0.0, np.cumsum(lengths(make, pilot, weights)))
    enough = int(np.ceil(along[-1] / (2 * erfcinv(ACCEPTED)))) + 1
    count = n_rungs or min(max(enough, 2), MOST, marks)
    # pilots that fall behind the schedule differ too little in its middle and too much at its end: half of the rungs are
    # spread evenly instead (MNIST, alpha = .6: the least chance between two rungs is then .2 instead of .12)
    even = np.linspace(0, 1, marks)
    return _spread((along / max(along[-1], 1e-300) + even) / 2, count)


def lengths(make: MakeFlips, pilot: Plan, weights: Array) -> Array:
    """Return the length d between neighbouring marks, (marks - 1,)."""
    at = np.flatnonzero(pilot.draw_at >= 0)
    ladder = replace(pilot, ladder=[pilot.stages[int(t)] for t in at], draw_at=np.full(len(pilot), -1))
    flips = make(ladder, len(weights))
    prepared = flips.prepare(slice(0, 1))
    rises = np.zeros((len(at), 2, len(weights)))
    for mark in range(len(at)):
        flips.place(Chains.start(np.ascontiguousarray(weights[:, mark]), ladder, records=0))
        here, before, behind = (
            flips.weigh(np.full(len(weights), np.clip(mark + step, 0, len(at) - 1)), prepared)[0] for step in (0, -1, 1)
        )
        rises[mark] = before - here, behind - here
    change = rises[:-1, 1, :, None] + rises[1:, 0, None, :]
    chance = np.exp(-np.maximum(change, 0)).mean(axis=(1, 2))
    return 2 * erfcinv(np.clip(chance, 1e-6, 1.0))


def _spread(along: Array, count: int) -> Array:
    """Return `count` places of the rising sequence `along`, at about equal steps of it, its ends among them.

    >>> _spread(np.array([0.0, 1.0, 2.0, 2.5, 3.0, 4.0]), 3)
    array([0, 2, 5])
    """
    wanted = np.linspace(along[0], along[-1], count)
    places = np.searchsorted(along, wanted - 1e-12)
    # no place twice, and room for those to come
    for k in range(1, count):
        places[k] = max(places[k], places[k - 1] + 1)
    for k in range(count):
        places[k] = min(places[k], len(along) - count + k)
    places[0] = 0
    return places
