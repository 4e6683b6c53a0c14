"""How fast a localization goes: step lengths, AMP's tolerance and damping, and when to slow down.

*fast* takes some 25 steps for ±1 weights (dt = min(0.2 (1 + t), 1) up to t = 20) and some 50 on the sphere (dt = 0.2 (1
+ t) up to t = 10⁴). *careful* takes steps of 0.04 (1 + t) with damping 0.3: it reaches loads where fast runs miss
constraints, at three to four times the cost. *auto* runs fast and lets a sample go on carefully from the moment its
measured instability λ = α mean(Δ²) mean(g'²) passes 0.7; AMP stops converging at 1.

Near λ = 1 the weights answer to the field as 1/(1 - λ): on the sphere, where this happens at t = 0 (close to the dAT line
half of the way from r to 1 is made before t = 0.05), steps shrink as 1 - λ, and the tolerance with the square of 1 - √λ,
√λ being the factor by which an iteration shrinks an error. There a careful sample goes fast again when λ is below 0.5.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solspace.measure.priors import Prior, Spherical
from solspace.numerics.arrays import Array

ACCURACIES = ("auto", "fast", "careful")
NEAR = 0.7
"""Instability at which `auto` slows a sample down."""
FAR = 0.5
"""Instability at which a critical sample goes fast again."""
BRAKE = 0.25
"""Least factor on a step."""
SHORT = 0.1
"""Step of samples that leave by a draw in the field: they go less far, and half the step has a quarter of its bias."""

EVEN = 1e-4
"""Tolerance for ±1 weights that mean nothing without a field (`Target.even`): what is small beside their variance is not small
beside means that begin at 0. |s| <= 1, T = 0.7, N = 1001: E s² 0.1546 ± 0.0004 at α = 0.5 and 0.1594 ± 0.0004 at 0.9, with
1e-3 0.1563 ± 0.0004 and 0.1619 ± 0.0004; theory 0.1539."""


@dataclass(frozen=True)
class Pace:
    """Steps dt = min(step (1 + t), longest); AMP to `tolerance` within `limit` iterations, damped at least by
    `damping`. Where `critical`, steps and tolerance shrink as the instability nears 1.
    """

    step: float
    longest: float
    tolerance: float
    limit: int
    damping: float
    critical: bool = False

    def sharpness(self, instability: Array) -> Array:
        """Return the factor (k,) on the tolerance: an error is 1/(1 - √λ) times what the last iteration changed."""
        if not self.critical:
            return np.ones(len(instability))
        known = np.where(np.isfinite(instability), instability, 0.0)
        return np.clip(4 * (1 - np.sqrt(np.minimum(known, 1))) ** 2, 0.1, 1)

    def brake(self, instability: Array) -> Array:
        """Return the factor (k,) on the step."""
        if not self.critical:
            return np.ones(len(instability))
        return np.clip(1 - np.where(np.isfinite(instability), instability, 0.0), BRAKE, 1)


FAST = {"binary": Pace(0.2, 1.0, 1e-3, 50, 0.0), "spherical": Pace(0.2, np.inf, 1e-4, 300, 0.0, True)}
CAREFUL = {"binary": Pace(0.04, np.inf, 1e-3, 60, 0.3), "spherical": Pace(0.05, np.inf, 1e-4, 300, 0.0, True)}
FINAL_TIME = {"binary": 20.0, "spherical": 1e4}
INTEGRATOR = {"binary": "matched", "spherical": "mixed"}


def kind(prior: Prior) -> str:
    """Return the prior's row in the tables above."""
    return "spherical" if isinstance(prior, Spherical) else "binary"


class Clock:
    """The times of `k` samples on their way to `final`, and how far each goes next.

    `times` is a fixed grid for all, or None: each sample steps at its own pace.
    """

    STATE = ("time", "taken", "step", "longest", "careful", "slow")

    def __init__(self, k: int, final: float, times: Array | None, pace: Pace, slower: Pace | None) -> None:
        self.final, self.times, self.pace, self.slower = final, times, pace, slower
        self.time, self.taken = np.zeros(k), np.zeros(k, int)
        self.step, self.longest = np.full(k, pace.step), np.full(k, pace.longest)
        self.careful, self.slow = np.zeros(k, bool), np.zeros(k, bool)

    @property
    def running(self) -> Array:
        """(k,) True for samples that have not arrived."""
        return self.time < self.final

    def next_steps(self, instability: Array) -> Array:
        """Return the lengths of the next steps (k,), 0 for samples that have arrived."""
        if self.times is not None:
            here = np.minimum(self.taken, len(self.times) - 2)
            return np.where(self.running, self.times[here + 1] - self.times[here], 0.0)
        steps = np.minimum(self.step * (1 + self.time), self.longest) * self.pace.brake(instability)
        left = self.final - self.time
        # A last step much shorter than the others would cost as much as they do.
        return np.where(left < 1.2 * steps, left, steps) * self.running

    def advance(self, steps: Array) -> None:
        """Move the running samples by `steps` (k,)."""
        self.taken += steps > 0
        after = self.times[np.minimum(self.taken, len(self.times) - 1)] if self.times is not None else self.time + steps
        self.time = np.where(steps > 0, np.where(after > self.final * (1 - 1e-12), self.final, after), self.time)

    def change_pace(self, instability: Array) -> list[tuple[Pace, Array]]:
        """Return which samples (k,) go on at which other pace: carefully near instability, fast again far from it."""
        if self.slower is None:
            return []
        near = ~self.slow & self.running & (instability > NEAR)
        self.careful |= near
        self._take(near, self.slower)
        far = self.slow & self.running & (instability < FAR) & self.pace.critical
        self._take(far, self.pace)
        return [(self.slower, near), (self.pace, far)]

    def _take(self, lanes: Array, pace: Pace) -> None:
        self.step[lanes], self.longest[lanes], self.slow[lanes] = pace.step, pace.longest, pace is self.slower

    def state(self) -> dict[str, Array]:
        """Return the arrays that the clock's future depends on."""
        return {name: getattr(self, name) for name in self.STATE}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for name in self.STATE:
            setattr(self, name, state[name])


def paces(prior: Prior, accuracy: str, **given: Any) -> tuple[Pace, Pace | None]:
    """Return the pace to start at and the one to slow down to; what is `given` (not None) holds for both.

    >>> from solspace.measure.priors import Binary
    >>> paces(Binary(), "fast", step=0.1)
    (Pace(step=0.1, longest=1.0, tolerance=0.001, limit=50, damping=0.0, critical=False), None)
    """
    changes = {name: value for name, value in given.items() if value is not None}
    fast, careful = replace(FAST[kind(prior)], **changes), replace(CAREFUL[kind(prior)], **changes)
    return (careful, None) if accuracy == "careful" else (fast, careful if accuracy == "auto" else None)
