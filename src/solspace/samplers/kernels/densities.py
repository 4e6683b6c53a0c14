"""Log weights -U(s - κ)/T of constraints in floating point, of any potential at any stage, inside compiled functions.

`forms(stages)` lays out a schedule as arrays; kernels then evaluate sums over constraints with

    moved(forms, t, s, powers, x, a, y, b, out, room)      Σ p_μ log W_t(s_μ + a x_μ + b y_μ)      (two columns of patterns)
    shifted(forms, t, s, powers, x, a, out, room)          Σ p_μ log W_t(s_μ + a x_μ)              (one column)

for stage number `t`: -inf at once where a weight vanishes. `s` (m,) are stabilities in float64 (the margin is in the forms),
`powers` (m,) exponents of the constraints or (0,) where all are 1, `room` scratch of `BLOCK` float64; `out` (m,) takes the new
stabilities, as many as were looked at. At T = 0 a form holds -U
itself. Closed forms are right to 1e-9 kT in each constraint; every other potential, and a user's own, is a table of quintics in
cells that divide each octave of the distance from a breakpoint, right to `ACCURACY` up to `REACH` from there, with straight tails
beyond 2^14. Sums are formed in one order, whatever the width of vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numba
import numpy as np
from numba import int64, uint64

from solspace.measure.bands import Band, LogBand, TauWall, Wall
from solspace.measure.likelihoods import Flip, Logistic
from solspace.measure.potentials import Errors, Hinge, Log, LogQuadratic, Potential, Tau, Uniform, scaled_log_weight
from solspace.numerics.arrays import Array
from solspace.samplers.kernels.machine_vectors import bits_of, float_of
from solspace.system.compiled import FAST, njit, variant

BLOCK = 64  # constraints evaluated together
FLAT, STEP, RAMP, POWER, PAIR, LOGISTIC, TABLE = range(7)
LOW, HIGH = -30, 14  # octaves of the distance from a breakpoint that a table divides
LEAST_BITS, MOST_BITS = 4, 9  # log2 of the cells of an octave
ACCURACY, REACH = 1e-6, 32.0  # error of a table in kT, and the distance from a breakpoint up to which it is checked
LEAST = 2.3e-308  # of what has a logarithm
TINY = 1e-4  # τ below which (t^τ - 1)/τ is a series
Numbers = tuple[float, float, float, float, float, float]
_SIZE = 12  # numbers of a closed form
_NODES = 0.5 - 0.5 * np.cos(np.pi * (np.arange(6) + 0.5) / 6)
_FIT = np.linalg.inv(np.vander(_NODES, 6, increasing=True)).T
_CHECKED = np.array([0.01, 0.2, 0.4, 0.6, 0.8, 0.99])


_fast: Any = numba.njit(**FAST)  # type: ignore[call-overload]


class Stage(Protocol):
    """What a sweep samples: a `schedules.Stage` or a `Target`."""

    @property
    def potential(self) -> Potential: ...
    @property
    def temperature(self) -> float: ...
    @property
    def margin(self) -> float: ...


class Forms(NamedTuple):
    """The log weights of a schedule's stages."""

    kinds: Array  # (stages,) int64
    numbers: Array  # (stages, ·) float64, see `_closed`; of a table: β, κ, its anchors, cells and where its rows start
    cells: Array  # (rows, 6) float64 coefficients of all tables, lowest power first


def forms(stages: Sequence[Stage], allowed: Sequence[Stage] = ()) -> Forms:
    """Return the log weights of `stages`, and behind them minus the distances from what each of the stages `allowed` allows.

    By these a chain on the wrong side finds its way. Stages that share a potential share its table.

    >>> from solspace.measure import Target
    >>> stages = [Target(temperature=0.5, margin=0.1), Target(potential="probit(0.3)")]
    >>> made, s = forms(stages), np.array([0.3, 1.0])
    >>> exact = [stage.log_weight(s).sum() for stage in stages]
    >>> found = [shifted(made, t, s, np.empty(0), s, 0.0, np.empty(2), np.empty(BLOCK)) for t in range(2)]
    >>> bool(abs(np.subtract(found, exact)).max() < 1e-6)
    True
    """
    closed = [_closed(stage) for stage in stages]
    tables = _Tables([stage for stage, form in zip(stages, closed) if form is None])
    rows = [tables.row(stage) if form is None else form for stage, form in zip(stages, closed)]
    for stage in allowed:
        low, high = _allowed(stage.potential)
        rows.append((RAMP, [stage.margin + low, 1.0, stage.margin + high]))
    numbers = np.zeros((len(rows), max(_SIZE, *(len(row[1]) for row in rows))))
    for own, (_, values) in zip(numbers, rows):
        own[: len(values)] = values
    return Forms(np.array([kind for kind, _ in rows]), numbers, tables.cells)


def _closed(stage: Stage) -> tuple[int, list[float]] | None:
    """Return kind and numbers of a closed form, with every wall at its place in s; None if there is none.

    FLAT: lowest, highest s. STEP: edge, log weight below, above. RAMP: lower edge, slope, upper edge. LOGISTIC: β, κ, scale.
    POWER: β, τ, sign, wall, linear, quadratic: β(u^τ - 1)/τ of u = sign (s - wall), β log u at τ = 0, + linear u - quadratic u².
    PAIR: β, τ, lower, upper, quadratic about the middle: the same of u = (s - lower)(upper - s).
    """
    potential, margin, kind = stage.potential, stage.margin, type(stage.potential)
    beta = 1.0 if stage.temperature == 0 else 1 / stage.temperature
    everywhere, given = (FLAT, [-np.inf, np.inf]), potential.parameters
    if kind is Uniform or (beta == 0 and kind in (Log, LogQuadratic)):
        return FLAT, [margin, np.inf]
    if kind is Band:
        return FLAT, [margin - given["width"], margin + given["width"]]
    if beta == 0 and not potential.hard:
        return everywhere
    if isinstance(potential, (LogBand, Wall, TauWall)) and kind in (LogBand, Wall, TauWall):
        return _wall(potential, margin, beta)
    simple = {
        Errors: lambda: (STEP, [margin, -beta, 0.0]),
        Flip: lambda: (STEP, [margin, *(beta * np.log([given["rate"], 1 - given["rate"]]))]),
        Hinge: lambda: (RAMP, [margin, beta, np.inf]),
        Log: lambda: (POWER, [beta, 0.0, 1.0, margin, 0.0, 0.0]),
        Tau: lambda: (POWER, [beta, given["tau"], 1.0, margin, 0.0, 0.0]),
        LogQuadratic: lambda: (POWER, [beta, 0.0, 1.0, margin, beta * given["linear"], beta * given["quadratic"]]),
        Logistic: lambda: (LOGISTIC, [beta, margin, given["scale"]]),
    }
    return simple[kind]() if kind in simple else None


def _wall(potential: LogBand | Wall | TauWall, margin: float, beta: float) -> tuple[int, list[float]]:
    low, high = potential._ends
    if beta == 0:  # of what is hard
        return FLAT, [margin + low, margin + high]
    if potential.centre is not None:
        return PAIR, [beta, potential.tau, margin + low, margin + high, beta * potential.quadratic]
    sign, wall = (1.0, low) if potential.upper is None else (-1.0, high)
    return POWER, [beta, potential.tau, sign, margin + wall, 0.0, 0.0]


def _allowed(potential: Potential) -> tuple[float, float]:
    """Return the ends of the stabilities where the weight of a potential is positive, from the margin."""
    edges = np.unique(potential.breakpoints) if potential.hard else np.empty(0)
    if not len(edges):
        return -np.inf, np.inf
    middles = np.concatenate([[edges[0] - 1], (edges[1:] + edges[:-1]) / 2, [edges[-1] + 1]])
    held = np.flatnonzero(np.isfinite(scaled_log_weight(potential, middles, 1.0)))
    if len(held) == 0 or held[-1] - held[0] + 1 != len(held):
        raise ValueError(f"what {potential} allows is not one interval of stabilities; annealing needs one.")
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    return float(ends[held[0]]), float(ends[held[-1] + 1])


class _Tables:
    """Tables of the log weights at β = 1 (0 where β is), one for each potential of `stages`."""

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.made: dict[tuple[int, bool], tuple[list[float], list[float]]] = {}
        hottest: dict[tuple[int, bool], float] = {}
        for stage in stages:
            key, beta = self._key(stage)
            hottest[key] = max(hottest.get(key, 0.0), beta)
        potentials = {self._key(stage)[0]: stage.potential for stage in stages}
        parts: list[Array] = []
        for key, beta in hottest.items():
            anchors, bits, found = _tabulated(potentials[key], beta)
            start = sum(map(len, parts))
            self.made[key] = anchors, [float(bits), float(start)]
            parts.append(found)
        self.cells = np.concatenate(parts) if parts else np.zeros((1, 6))

    def _key(self, stage: Stage) -> tuple[tuple[int, bool], float]:
        beta = 1.0 if stage.temperature == 0 else 1 / stage.temperature
        return (id(stage.potential), beta == 0), beta

    def row(self, stage: Stage) -> tuple[int, list[float]]:
        key, beta = self._key(stage)
        anchors, place = self.made[key]
        return TABLE, [beta or 1.0, stage.margin, *place, float(len(anchors)), *anchors]


def _tabulated(potential: Potential, beta: float) -> tuple[list[float], int, Array]:
    """Return breakpoints, log2 of the cells of an octave, and cells of a table that is right to `ACCURACY` at `beta`.

    The sides of the breakpoints follow each other, the lower side of the first before its upper side.
    """
    anchors = np.unique(
        np.append(np.asarray(potential.breakpoints, float), [] if len(potential.breakpoints) else [0.0])
    )
    gaps = np.repeat(np.diff(anchors) / 2, 2)
    widths = np.concatenate([[np.inf], gaps, [np.inf]])  # of what each side covers
    for bits in range(LEAST_BITS, MOST_BITS + 1):
        sides, errors = [], []
        for side, width in enumerate(widths):
            cells, error = _side(potential, beta, anchors[side // 2], 2 * (side % 2) - 1, width, bits)
            sides.append(cells)
            errors.append(error)
        if max(errors) <= 1:
            return anchors.tolist(), bits, np.concatenate(sides)
    raise ValueError(
        f"{potential} is not smooth enough between its breakpoints {anchors.tolist()} for real weights: "
        "name all points where it, or its slope, jumps as breakpoints."
    )


def _side(potential: Potential, beta: float, anchor: float, sign: int, width: float, bits: int) -> tuple[Array, float]:
    """Return the cells of one side of a breakpoint, and their largest error in units of what is allowed."""
    count = (HIGH - LOW) << bits
    octave, cell = np.divmod(np.arange(count), 1 << bits)
    scale = 2.0 ** (octave + LOW) / (1 << bits)
    start = scale * ((1 << bits) + cell)
    used = start <= width

    def values(places: Array) -> Array:
        distance = start[:, None] + scale[:, None] * places
        found = scaled_log_weight(potential, anchor + sign * np.minimum(distance, 1.5 * width), 1.0 if beta else 0.0)
        return np.asarray(found, dtype=float)

    given = values(_NODES)
    allowed: Any = np.isfinite(given)
    whole = allowed.all(axis=1)
    torn = used & ~whole & (np.where(allowed, given, -np.inf).max(axis=1) * (beta or 1.0) > -600)
    fitted = np.where(whole[:, None], given, 0.0) @ _FIT
    seen = values(_CHECKED)
    checked = used & whole & (start < REACH)
    found, seen = (fitted @ np.vander(_CHECKED, 6, increasing=True).T)[checked], seen[checked]
    size = beta * np.abs(np.where(np.isfinite(seen), seen, 0.0))
    rounding = 2e-15 * beta * max(1.0, abs(anchor)) / start[checked, None]  # of the distance, in a logarithm of it
    error = np.abs(found - seen) * beta / (ACCURACY + np.where(size < 1e3, 1e-9, 0.1) * size + rounding)
    worst = float(error.max(initial=0.0))
    fitted[~whole] = [-np.inf, 0.0, 0.0, 0.0, 0.0, 0.0]
    return fitted, np.inf if torn.any() or not np.isfinite(worst) else worst


_ONE, _MANTISSA, _FRACTION = uint64(0x3FF0000000000000), uint64(0x000FFFFFFFFFFFFF), uint64(52)
_ROOT_HALF = uint64(0x3FE6A09E667F3BCD)
_WHOLE, _BIAS = uint64(0x4330000000000000), 4503599627370496.0 + 1023.0  # 2^52 as bits; an exponent field beside it
_ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it rounds to whole numbers
# log(1 + x)/x between √½ - 1 and √2 - 1, and 2^x between -½ and ½, highest power first
_LOG = (
    0.05235888516923785, -0.09804420067786203, 0.1004720511888933, -0.0994599618671966, 0.11006038270379548,
    -0.12495435324992145, 0.1429081173942899, -0.16667024572009081, 0.19999888139973632, -0.24999992728449305,
    0.3333333424920659, -0.5000000003595171, 0.9999999999874651,
)  # fmt: skip
_EXP = (
    1.0205905413765595e-07, 1.325964524488711e-06, 1.5252672924850737e-05, 0.0001540343375125101, 0.0013333558200794592,
    0.009618129193934313, 0.05550410866465167, 0.2402265069564034, 0.6931471805599462, 1.0,
)  # fmt: skip
_LN2, _LOG2E = 0.6931471805599453, 1.4426950408889634


@numba.njit(inline="always", error_model="numpy")
def log(x: float) -> float:
    """Return log x of a positive normal number, to 1e-11."""
    bits = bits_of(x) + (_ONE - _ROOT_HALF)
    exponent = float_of((bits >> _FRACTION) | _WHOLE) - _BIAS
    f = float_of((bits & _MANTISSA) + _ROOT_HALF) - 1.0
    c = _LOG
    p = c[0] * f + c[1]
    p = ((((p * f + c[2]) * f + c[3]) * f + c[4]) * f + c[5]) * f + c[6]
    p = (((((p * f + c[7]) * f + c[8]) * f + c[9]) * f + c[10]) * f + c[11]) * f + c[12]
    return exponent * _LN2 + p * f


@numba.njit(inline="always", error_model="numpy")
def exp(x: float) -> float:
    """Return exp x, relatively to 1e-13, for x between -700 and 700, and the values there beyond."""
    y = min(max(x, -700.0), 700.0) * _LOG2E
    shifted = y + _ROUND
    r = y - (shifted - _ROUND)
    c = _EXP
    p = ((((c[0] * r + c[1]) * r + c[2]) * r + c[3]) * r + c[4]) * r
    p = ((((p + c[5]) * r + c[6]) * r + c[7]) * r + c[8]) * r + c[9]
    return float_of(bits_of(p) + (bits_of(shifted) << _FRACTION))


@numba.njit(inline="always", error_model="numpy")
def _power(t: float, tau: float) -> float:
    # (t^τ - 1)/τ of t > 0; log t at τ = 0
    level = log(t)
    v = tau * level
    if tau < TINY:
        return level * (1.0 + v * (0.5 + v * (1.0 / 6.0 + v * (1.0 / 24.0))))
    return (exp(v) - 1.0) / tau


# log weights of one constraint, of the numbers of its form; a function of arrays would count references at every call
@numba.njit(inline="always")
def _step(p: Numbers, s: float) -> float:
    return p[2] if s >= p[0] else p[1]


@numba.njit(inline="always")
def _ramp(p: Numbers, s: float) -> float:
    return -p[1] * max(max(p[0] - s, s - p[2]), 0.0)


@numba.njit(inline="always")
def _logistic(p: Numbers, s: float) -> float:
    z = p[2] * (s - p[1])
    return p[0] * (min(z, 0.0) - log(1.0 + exp(-abs(z))))


@numba.njit(inline="always")
def _half_line(p: Numbers, s: float) -> float:
    u = p[2] * (s - p[3])
    inside = p[0] * log(max(u, LEAST)) + u * (p[4] - p[5] * u)
    return inside if u > 0 else -np.inf


@numba.njit(inline="always", error_model="numpy")
def _soft_line(p: Numbers, s: float) -> float:
    u = p[2] * (s - p[3])
    beyond, inside = (u - 1.0) / p[1], _power(max(u, LEAST), p[1])
    return p[0] * (inside if u > 0 else beyond)


@numba.njit(inline="always")
def _band(p: Numbers, s: float) -> float:
    u, z = (s - p[2]) * (p[3] - s), s - (p[2] + p[3]) / 2
    inside = p[0] * log(max(u, LEAST)) - p[4] * z * z
    return inside if u > 0 else -np.inf


@numba.njit(inline="always", error_model="numpy")
def _soft_band(p: Numbers, s: float) -> float:
    u, z = (s - p[2]) * (p[3] - s), s - (p[2] + p[3]) / 2
    outside = max(max(p[2] - s, s - p[3]), 0.0)
    beyond, inside = -(1.0 + (p[3] - p[2]) * outside) / p[1], _power(max(u, LEAST), p[1])
    return p[0] * (inside if u > 0 else beyond) - p[4] * z * z


@_fast
def _sum(powers: Array, first: int, count: int, room: Array) -> float:
    """Return the sum over `count` log weights in `room`, times powers[first : first + count] if there are any."""
    for i in range(count, BLOCK):
        room[i] = 0.0
    if powers.size:
        for i in range(uint64(count)):
            room[i] *= powers[uint64(first) + i]
    # in one order, whatever the width of vectors
    for i in range(32):
        room[i] += room[i + 32]
    for i in range(16):
        room[i] += room[i + 16]
    for i in range(8):
        room[i] += room[i + 8]
    return ((room[0] + room[4]) + (room[2] + room[6])) + ((room[1] + room[5]) + (room[3] + room[7]))


def _moved(value: Callable[[Numbers, float], float]) -> Callable[..., float]:
    """Return `moved` for the potentials of which `value` is the log weight."""

    @_fast
    @variant(value.py_func.__name__)  # type: ignore[attr-defined]
    def moved(p, s, powers, x, a, y, b, out, room):
        total, m = 0.0, len(s)
        for first in range(0, m, BLOCK):
            start, count = uint64(first), min(BLOCK, m - first)
            for i in range(uint64(count)):
                new = s[start + i] + a * x[start + i] + b * y[start + i]
                out[start + i] = new
                room[i] = value(p, new)
            total += _sum(powers, first, count, room)
            if total == -np.inf:
                return total
        return total

    return moved


_moved_step, _moved_ramp, _moved_logistic = (_moved(value) for value in (_step, _ramp, _logistic))
_moved_half_line, _moved_soft_line = _moved(_half_line), _moved(_soft_line)
_moved_band, _moved_soft_band = _moved(_band), _moved(_soft_band)


@_fast
def _moved_flat(low: float, high: float, s: Array, x: Array, a: float, y: Array, b: float, out: Array) -> float:
    m = len(s)
    for first in range(0, m, BLOCK):
        start, lost = uint64(first), uint64(0)
        for i in range(uint64(min(BLOCK, m - first))):
            value = s[start + i] + a * x[start + i] + b * y[start + i]
            out[start + i] = value
            lost |= uint64(value < low) | uint64(value > high)
        if lost:
            return -np.inf
    return 0.0


@_fast
def _moved_table(
    numbers: Array,
    cells: Array,
    s: Array,
    powers: Array,
    x: Array,
    a: float,
    y: Array,
    b: float,
    out: Array,
    room: Array,
) -> float:
    beta, margin, bits, anchors = numbers[0], numbers[1], uint64(numbers[2]), int64(numbers[4])
    rows, count, base = int64(numbers[3]), int64(HIGH - LOW) << int64(bits), int64(1023 + LOW) << int64(bits)
    width, total, m = 2.0 ** (HIGH - 1) / float(int64(1) << int64(bits)), 0.0, len(s)
    for first in range(0, m, BLOCK):
        start, here = uint64(first), min(BLOCK, m - first)
        for i in range(uint64(here)):
            new = s[start + i] + a * x[start + i] + b * y[start + i]
            out[start + i] = new
            z, nearest = new - margin, 0
            while nearest + 1 < anchors and 2 * z >= numbers[5 + nearest] + numbers[6 + nearest]:
                nearest += 1
            z -= numbers[5 + nearest]
            raw = bits_of(abs(z))
            place = int64(raw >> (_FRACTION - bits)) - base
            u = float_of(((raw << bits) & _MANTISSA) | _ONE) - 1.0 if place >= 0 else 0.0
            k = uint64(rows + (2 * nearest + (z >= 0)) * count + min(max(place, 0), count - 1))
            if place < count:
                high = cells[k, 3] + u * (cells[k, 4] + u * cells[k, 5])
                room[i] = beta * (cells[k, 0] + u * (cells[k, 1] + u * (cells[k, 2] + u * high)))
            else:  # along the tangent at the end of the last cell
                slope = cells[k, 1] + 2 * cells[k, 2] + 3 * cells[k, 3] + 4 * cells[k, 4] + 5 * cells[k, 5]
                end = cells[k, 0] + cells[k, 1] + cells[k, 2] + cells[k, 3] + cells[k, 4] + cells[k, 5]
                room[i] = beta * (end + slope * ((abs(z) - 2.0**HIGH) / width))
        total += _sum(powers, first, here, room)
        if total == -np.inf:
            return total
    return total


@njit(**FAST)
def moved(
    forms: Forms, t: int, s: Array, powers: Array, x: Array, a: float, y: Array, b: float, out: Array, room: Array
) -> float:
    """Return Σ p log W_t(s + a x + b y); -inf, at once, where a weight vanishes."""
    kind, n = forms.kinds[t], forms.numbers
    p = n[t, 0], n[t, 1], n[t, 2], n[t, 3], n[t, 4], n[t, 5]
    if kind == FLAT:
        return _moved_flat(p[0], p[1], s, x, a, y, b, out)
    if kind == STEP:
        return _moved_step(p, s, powers, x, a, y, b, out, room)
    if kind == RAMP:
        return _moved_ramp(p, s, powers, x, a, y, b, out, room)
    if kind == LOGISTIC:
        return _moved_logistic(p, s, powers, x, a, y, b, out, room)
    if kind == POWER:
        if p[1] == 0:
            return _moved_half_line(p, s, powers, x, a, y, b, out, room)
        return _moved_soft_line(p, s, powers, x, a, y, b, out, room)
    if kind == PAIR:
        if p[1] == 0:
            return _moved_band(p, s, powers, x, a, y, b, out, room)
        return _moved_soft_band(p, s, powers, x, a, y, b, out, room)
    return _moved_table(n[t], forms.cells, s, powers, x, a, y, b, out, room)


@njit(**FAST)
def shifted(forms: Forms, t: int, s: Array, powers: Array, x: Array, a: float, out: Array, room: Array) -> float:
    """Return Σ p log W_t(s + a x); -inf, at once, where a weight vanishes."""
    return moved(forms, t, s, powers, x, a, x, 0.0, out, room)
