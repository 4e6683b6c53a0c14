"""Patterns and potentials in fixed point, for the kernel that takes real-valued patterns.

An entry x becomes the integer rint(x 2^q), with q as large as 32 bits allow for the worst weights; a stability is then
the integer t = Σ x w - margin, exactly, and s - margin = c t with c = 2^-q/√n. The potential is approximated by one of
the two forms of `kernels.energies`, in units of which `kt` make one kT. Both resolve a potential best near t = 0, so t is
counted from where its wall is; a band, being even, is folded: t is the distance from the nearer of its walls. Beyond a wall
the energy rises by WALL kT in the root mean square of a flip's step.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Errors, Hinge, Log, Potential, Tau, TauWall, Uniform, Wall
from solspace.numerics.arrays import Array, Bools, aligned
from solspace.problem import Perceptron
from solspace.samplers.annealing.schedules import Stage, heats
from solspace.samplers.constraints import offset
from solspace.samplers.kernels.flips import CELLS, DEGREE, EXPONENT, JUMPS, OCTAVES, A, B, C, H

WALL = 48.0  # largest step of an energy in kT, where the weight vanishes or nearly does
_PAD = 128  # constraints are padded to a multiple of this many
_FINEST = float(1 << 16)  # most units to a kT
_WALLS = (Wall, TauWall)
_HALF_SPACES = (Tau, Log, Hinge, Errors, Uniform)
_ROOM = float(1 << 28)  # largest energy of a constraint in units: eight of them are summed in 32 bits


class FixedPoint:
    """The patterns of a problem in fixed point, fit for margins up to `margin` in absolute value.

    >>> fixed = FixedPoint(Perceptron([[0.5, -1.5], [2.0, 1.0]]))
    >>> (fixed.columns[:, :2] / 2 * fixed.resolution).tolist()
    [[0.5, 2.0], [-1.5, 1.0]]
    """

    def __init__(self, problem: Perceptron, margin: float = 0.0) -> None:
        from solspace.samplers.kernels import flips_real

        self.kernels: Any = flips_real
        self.problem, self.n, self.m = problem, problem.n, problem.m
        sums = (np.abs(block).sum(axis=1, dtype=np.float64) for _, block in problem.blocks(problem.patterns.dtype))
        reach = max(max(float(part.max()) for part in sums) + margin * np.sqrt(self.n), 1e-200)
        self.bits = int(np.floor(np.log2(((1 << 30) - self.n - 2) / reach)))
        self.resolution = 2.0**-self.bits  # value of the last bit of a pattern
        self.unit = self.resolution / np.sqrt(self.n)  # stability of t = 1
        self.reach = int(reach / self.resolution) + self.n  # no |t| exceeds this
        self.columns = aligned(
            (self.n, _PAD * -(-self.m // _PAD)), np.int32
        )  # what a flip of w = +1 subtracts, (n, size)
        square = flips_real.fix_columns(problem.patterns, 2.0**self.bits, self.columns)
        self.step = max(float(np.sqrt(square / (self.n * self.m))), 1.0)  # root mean square of a flip's
        self.number = next(_numbers)  # of this object among all

    def without_columns(self) -> FixedPoint:
        """Return a copy for a device that has the columns."""
        few = copy(self)
        del few.columns, few.problem
        return few

    def met_range(self, target: Target) -> tuple[int, int]:
        """Return the first and the last Σ x w at which a constraint of `target` is met."""
        return self.interval(lambda s: ~target.potential.violated(s), target.potential, "meets", target.margin)

    def interval(
        self, inside: Callable[[Array], Bools], potential: Potential, verb: str, margin: float = 0.0
    ) -> tuple[int, int]:
        """Return the first and the last t, counted from -margin, where `inside(s)` holds.

        It may change at the potential's breakpoints and at the margin only, and must hold on one interval.
        """
        edges = np.unique([0.0, *potential.breakpoints])
        middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
        held = np.flatnonzero(inside(middles))
        if len(held) == 0 or held[-1] - held[0] + 1 != len(held):
            raise ValueError(f"what {verb} {potential} is not one interval of stabilities; annealing needs one.")
        first, last = -self.reach, self.reach
        closed = inside(edges)
        if held[0] > 0:
            place = (edges[held[0] - 1] + margin) / self.unit
            first = int(np.ceil(place)) if closed[held[0] - 1] else int(np.floor(place)) + 1
        if held[-1] < len(edges):
            place = (edges[held[-1]] + margin) / self.unit
            last = int(np.floor(place)) if closed[held[-1]] else int(np.ceil(place)) - 1
        return first, last

    def states(self, weights: Array, pad: int) -> Array:
        """Return Σ x w for `weights` (k, n), exactly, (k, size) int32; `pad` where there is no constraint."""
        states = aligned((len(weights), self.columns.shape[1]), np.int32)
        self.kernels.find_states(self.columns.reshape(-1), weights, states)
        states[:, self.m :] = pad
        return states


def fixed_point(problem: Perceptron, margin: float = 0.0) -> FixedPoint:
    """Return the patterns in fixed point, the same object as long as the last one is held."""
    key = id(problem.patterns), margin  # a `FixedPoint` holds its patterns: no others can have their place
    found = _made.get(key)
    if found is None:
        _made[key] = found = FixedPoint(problem, margin)
    return found


_numbers = itertools.count()
_made: weakref.WeakValueDictionary[tuple[int, float], FixedPoint] = weakref.WeakValueDictionary()


@dataclass(frozen=True)
class Forms:
    """Potentials as the kernel takes them, one row for each stage, of each problem where there are several.

    `kt` units make one kT (zero at T = 0); a constraint's potential is energy · `unit`. Where it is a logarithm the energy
    is B[0] - `logarithm` · log t from t = 1 on, and at least B[0] before; elsewhere `logarithm` is 0.
    """

    forms: Array
    marks: Array
    margins: Array
    kt: Array
    unit: Array
    logarithm: Array

    def of(self, problem: int) -> Forms:
        return Forms(*(values[problem] for values in vars(self).values()))

    def potential(self, energy: Array, stage: Array, m: int) -> Array:
        return energy * self.unit[stage]


def forms(stages: Sequence[Stage], fixed: Sequence[FixedPoint], power: bool) -> Forms:
    """Return the potentials of `stages` for each of `fixed`, in the power form or else in the cell form.

    All arrays are (problems, stages, …).
    """
    thermal, heat = heats(stages)
    coefficients, marks, scale = (_power_forms if power else _cell_forms)(stages, fixed)
    potentials = [stage.potential for stage in stages]
    logs = np.array([power and _has_powers(own) and getattr(own, "tau", 0.0) == 0 for own in potentials])
    origins, units = (
        np.array([stage.margin + offset(stage.potential) for stage in stages]),
        np.array([own.unit for own in fixed]),
    )
    return Forms(
        forms=coefficients,
        marks=marks,
        margins=np.ceil(origins / units[:, None]).astype(np.int64),
        kt=np.where(thermal, scale, 0.0),
        unit=heat / scale,
        logarithm=np.where(logs, scale / np.where(heat > 0, heat, 1.0), 0.0),
    )


def _cell_forms(stages: Sequence[Stage], fixed: Sequence[FixedPoint]) -> tuple[Array, Array, Array]:
    made = [[_cell_form(stage, own) for stage in stages] for own in fixed]
    coefficients, marks, scale = ([[form[part] for form in row] for row in made] for part in range(3))
    return np.array(coefficients, np.float32), np.array(marks, np.int32), np.array(scale)


def is_power(stage: Stage) -> bool:
    potential = stage.potential
    known = potential.upper is None if isinstance(potential, _WALLS) else isinstance(potential, _HALF_SPACES)
    return known and np.isfinite(stage.temperature)


def is_linear(stage: Stage) -> bool:
    """Tell whether the power form of `stage` has no powers: linear below the edge, 0 above."""
    return is_power(stage) and not _has_powers(stage.potential)


def reach_of(stages: Sequence[Stage]) -> float:
    """Return the largest stability, in absolute value, from which t is counted in any stage."""
    return max(abs(stage.margin + offset(stage.potential)) for stage in stages)


def _power_forms(stages: Sequence[Stage], fixed: Sequence[FixedPoint]) -> tuple[Array, Array, Array]:
    """Return coefficients, marks and units to a kT of power forms: linear below the edge, A[e] h(z) + B[e] above.

    (problems, stages, …) each. What depends on a stage and the unit of t alone is found once for all problems that share it.
    """
    unit, step, reach = (np.array([getattr(own, name) for own in fixed])[:, None] for name in ("unit", "step", "reach"))
    powers = np.array([_has_powers(stage.potential) for stage in stages])
    beta = np.array([1 / stage.temperature if stage.temperature > 0 else 1.0 for stage in stages])
    tau = np.array([float(getattr(stage.potential, "tau", 0.0)) for stage in stages])
    curves = np.zeros((len(fixed), len(stages), 2, 32))
    for own in np.unique(unit) if powers.any() else ():
        found = [_curve(float(b), float(t), float(own)) if p else _FLAT for b, t, p in zip(beta, tau, powers)]
        curves[unit[:, 0] == own] = np.array(found)
    steep = WALL / step
    height, slope = _left(stages, beta, unit, steep, curves[:, :, 1, 0])
    with np.errstate(divide="ignore"):
        height = np.where(tau > 0, np.minimum(height, beta / tau), height)
        slope = np.where(tau > 0, np.minimum(slope, beta / tau * unit), slope)
    highest = np.maximum(height + slope * reach, np.abs(curves[:, :, 1]).max(axis=2))
    scale = np.minimum(_FINEST, _ROOM / np.maximum(highest, 1e-300))
    coefficients = np.empty((len(fixed), len(stages), C + 2), np.float32)
    turned = (np.arange(32) + EXPONENT) % 32
    curves *= scale[:, :, None, None]
    coefficients[..., A + turned], coefficients[..., B + turned] = curves[:, :, 0], curves[:, :, 1]
    coefficients[..., H:C] = np.array([_polynomial(float(t)) for t in tau])
    coefficients[..., C], coefficients[..., C + 1] = scale * height, -scale * slope
    marks = np.broadcast_to(powers[:, None].astype(np.int64), (len(fixed), len(stages), 1))
    return coefficients, np.ascontiguousarray(marks), scale


def _has_powers(potential: Potential) -> bool:
    return isinstance(potential, (Tau, Log, *_WALLS))


def _left(stages: Sequence[Stage], beta: Array, unit: Array, steep: Array, first: Array) -> tuple[Array, Array]:
    """Return (problems, stages) height and slope of the potentials left of the edge; `first` is B of the exponent 0."""
    kinds = [type(stage.potential) for stage in stages]
    hinge, errors, uniform = (np.array([kind is known for kind in kinds]) for known in (Hinge, Errors, Uniform))
    height = np.select([hinge, errors, uniform], [np.zeros_like(beta), beta, np.full_like(beta, WALL)], first + WALL)
    slope = np.where(hinge, beta * unit, np.where(errors, 0.0, steep))
    return height, slope


_FLAT = np.zeros((2, 32))


@lru_cache(maxsize=1 << 14)
def _curve(beta: float, tau: float, unit: float) -> Array:
    """Return A and B at every exponent, (2, 32), before they are scaled."""
    base = unit * 2.0 ** np.arange(32)
    return np.stack([-beta * base**tau, -beta * _power(base, tau)])


@lru_cache(maxsize=1 << 14)
def _polynomial(tau: float) -> Array:
    return _FIT @ _power(_NODES, tau)


def _power(s: Array, tau: float) -> Array:
    return np.expm1(tau * np.log(s)) / tau if tau > 0 else np.log(s)


_NODES = 1.5 + 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
_FIT = np.linalg.inv(np.vander(_NODES, DEGREE + 1))  # values at these points of [1, 2] -> coefficients, highest first


class _Shape(NamedTuple):
    """A potential at T = 1 in cells: values and zero, heights of jumps, and marks."""

    values: Array  # (2, corners)
    zero: Array
    heights: list[float]
    marks: list[int]
    used: Array  # corners that stabilities can reach


def _cell_form(stage: Stage, fixed: FixedPoint) -> tuple[Array, list[int], float]:
    """Return coefficients, marks and units to a kT (to a U of 1 at T = 0) of the cell form of any potential.

    It must be finite on one interval, with at most four jumps inside it.
    """
    beta = 1 / stage.temperature if stage.temperature > 0 else 1.0
    if beta > 0:  # stages that differ in temperature and margin share a shape
        shapes = fixed.__dict__.setdefault("shapes", {})
        _, shape = shapes.setdefault(id(stage.potential), (stage.potential, None))
        if shape is None:
            shape = _shape(Stage(stage.potential, 1.0), fixed)
            shapes[id(stage.potential)] = stage.potential, shape
    else:
        beta, shape = 1.0, _shape(stage, fixed)
    values, steep = beta * shape.values, WALL / fixed.step
    heights = [beta * height for height in shape.heights]
    highest = np.abs(values[:, shape.used]).max() + sum(map(abs, heights)) + WALL + steep * fixed.reach
    scale = min(_FINEST, _ROOM / highest)
    coefficients = np.concatenate(
        [values[:, :-1].ravel(), np.diff(values).ravel() / (1 << 16), beta * shape.zero, [WALL, steep], heights]
    )
    return scale * coefficients, shape.marks, scale


def _shape(stage: Stage, fixed: FixedPoint) -> _Shape:
    potential = stage.potential
    origin, half = offset(potential), 0
    if potential.centre is not None:  # a band's half width, such that t = 1 is the last t inside
        half = int(np.floor((max(potential.breakpoints) - potential.centre) / fixed.unit)) + 1
    alone = Stage(potential, stage.temperature, -origin)  # at stabilities counted from there
    ends = fixed.interval(lambda s: np.isfinite(alone.energies(s - origin)), potential, "is allowed by", -origin)
    edges = np.unique(potential.breakpoints) - origin
    if half:  # counted inwards from the lower wall
        alone, edges = Stage(potential, stage.temperature, -float(min(potential.breakpoints))), edges[:1] - edges[0]
        ends = ends[0] + half, half
    first, last = ends
    inner = [edge for edge in edges if first < edge / fixed.unit < last]
    jumps = [(int(np.ceil(edge / fixed.unit)), height) for edge in inner if (height := _jump(alone, edge))]
    if len(jumps) > JUMPS:
        raise ValueError(
            f"{potential} jumps at {len(jumps)} breakpoints; on real-valued patterns {JUMPS} are possible."
        )
    # where nothing is forbidden the last cell goes on beyond the largest t, or its slope would be wrong
    bounds = [end * (1 + 1 / CELLS) if abs(end) == fixed.reach else end for end in ends]

    def smooth(t: Array) -> Array:
        inside = np.clip(t, bounds[0], bounds[1])
        values = alone.energies(inside * fixed.unit)
        # an end that is itself forbidden is approached from inside
        values = np.where(
            np.isfinite(values), values, alone.energies(np.clip(t, first + 1e-6, last - 1e-6) * fixed.unit)
        )
        return values - sum(height * (inside >= place) for place, height in jumps)

    corners = np.append((2.0 ** np.arange(OCTAVES)[:, None] * (1 + np.arange(CELLS) / CELLS)).ravel(), 2.0**OCTAVES)
    unused = JUMPS - len(jumps)
    return _Shape(
        values=np.stack([smooth(corners), smooth(-corners)]),
        zero=smooth(np.zeros(1)),
        heights=[height for _, height in jumps] + [0.0] * unused,
        marks=[first, last, *(place for place, _ in jumps), *[1 << 30] * unused, half],
        used=corners <= 2 * fixed.reach,
    )


def _jump(stage: Stage, edge: float) -> float:
    beside = edge + np.array([-1.0, 1.0]) * 1e-9 * (1 + abs(edge))
    below, above = stage.energies(beside)
    height = above - below
    return float(height) if abs(height) > 1e-6 else 0.0
