"""Let theory choose the potential: the member of a family whose ASL threshold is largest (theory notes 10).

The threshold of a candidate is the load at which the largest instability max_q λ(q) reaches 1: followed by the
secant method in log α from the last candidate's, a handful of curves each. The best member has several peaks of
λ of the same height, over many decades of 1 - q, so the objective has a ridge on which simplex searches crawl.
Instead the problem is taken as it is: maximise α under λ(y; α, parameters) <= 1 at every depth y, by linear
programs inside a trust region.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize_scalar

from solspace.measure import Target, potentials
from solspace.measure.priors import Prior
from solspace.numerics.arrays import Reals
from solspace.system.checks import unknown
from solspace.system.plain import Record, Values
from solspace.system.progress import progress as progress_bar
from solspace.theory.localization import Landscape, Localization
from solspace.theory.reference import solve
from solspace.theory.thresholds import asl_threshold

KNOWN: dict[str, dict[str, tuple[float, float, float]]] = {  # start, lowest and highest value of each parameter
    "log": {"temperature": (0.6, 0.1, 0.999)},
    "log_band": {"temperature": (0.85, 0.1, 0.999), "quadratic": (-0.3, -4.0, 8.0)},
    "wall": {"temperature": (0.6, 0.1, 0.999)},
    "log_quadratic": {"temperature": (0.85, 0.3, 0.999), "linear": (1.0, -4.0, 8.0), "quadratic": (0.8, 0.0, 8.0)},
}


@dataclass(frozen=True)
class Design(Record):
    """The best member of a family.

    Attributes
    ----------
    target : Target
        The target to sample.
    alpha_asl : float
        Its ASL threshold: a replica-symmetric prediction about n → ∞, not the number of samples solved at a given n.
    parameters : dict
        The values chosen, by name.
    overlap, replicon, entropy : float
        r, replicon (stable below 1) and entropy of the measure at that load.
    evaluations : int
        Thresholds computed on the way.
    """

    target: Target
    alpha_asl: float
    parameters: dict[str, float]
    overlap: float
    replicon: float
    entropy: float
    evaluations: int

    @property
    def words(self) -> str:
        """What the result is, and what it is not."""
        negative = "Its entropy there is negative: the equations go on past the end of the measure's typical samples. "
        unstable = "The replica-symmetric solution is unstable there. "
        return (
            f"Replica-symmetric theory predicts that message passing localizes with {self.target} up to alpha = "
            f"{self.alpha_asl:.6g} (overlap {self.overlap:.4g}, replicon {self.replicon:.4g}, entropy {self.entropy:.4g}). "
            f"{negative if self.entropy < 0 else ''}{unstable if self.replicon >= 1 else ''}"
            "This is about convergence at large n, not about how many samples are solved at a given n."
        )

    def _values(self) -> Values:
        return super()._values() | {"words": self.words}

    def __repr__(self) -> str:
        chosen = ", ".join(f"{name} = {value:.6g}" for name, value in self.parameters.items())
        rows = [("alpha_ASL", self.alpha_asl), ("overlap r", self.overlap), ("replicon", self.replicon)]
        lines = [f"  {name:<10} {value:.7g}" for name, value in [*rows, ("entropy", self.entropy)]]
        return "\n".join([f"Design of {self.target}: {chosen}", *lines, f"  {self.words}"])


def design(
    family: object,
    margin: float = 0.0,
    *,
    prior: str | Prior = "binary",
    initial: Mapping[str, float] | None = None,
    bounds: Mapping[str, tuple[float, float]] | None = None,
    temperature: float = 1.0,
    progress: bool | None = None,
) -> Design:
    """Return the member of a family of potentials with the largest ASL threshold (theory notes 10).

    Parameters
    ----------
    family : str, Potential or type
        "log" (over T), "log_quadratic" (over T, linear, quadratic), "log_band(K)" (over T and quadratic), a `wall(lower,
        upper)` (over T), or a class of potentials whose dataclass fields are the parameters.
    margin : float, default 0.0
        Margin κ of the target.
    prior : str or Prior, default "binary"
        Prior of the target.
    initial : mapping of str to float, optional
        Start of the search by parameter; a class may carry it as an attribute of this name. "temperature" may be a key.
    bounds : mapping of str to (float, float), optional
        Bounds of the search by parameter; a class may carry it as an attribute of this name.
    temperature : float, default 1.0
        T where it is not among the parameters.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.

    Returns
    -------
    Design
        The target, its threshold and its parameters.

    Raises
    ------
    ValueError
        If no load can be sampled at the start of the search.

    Examples
    --------
    >>> best = design("log")
    >>> round(best.parameters["temperature"], 2), round(best.alpha_asl, 4)
    (0.71, 0.667)
    """
    make, space = family_space(family, initial, bounds)
    start, low, high = np.transpose(list(space.values()))

    def target(x: Reals) -> Target:
        values = dict(zip(space, x.tolist()))
        heat = values.pop("temperature", temperature)
        return Target(prior, make(**values), heat, margin)

    with progress_bar(1, f"designing {getattr(family, '__name__', family)}", progress) as bar:
        search = _Search(target, low, high, bar)
        best = search.run(np.clip(start, low, high))
    found = asl_threshold(target(best))
    assert found is not None
    load, state = found
    chosen = dict(zip(space, best.tolist()))
    return Design(target(best), load, chosen, state.overlap, state.replicon, state.entropy, search.count)


def family_space(
    family: object, initial: Mapping[str, float] | None, bounds: Mapping[str, tuple[float, float]] | None
) -> tuple[Callable[..., Any], dict[str, tuple[float, float, float]]]:
    """Return the class of potentials of `family`, and (start, lowest, highest) of each parameter.

    Of a potential, or its text with parameters ("log_band(0.8)"), the parameters that are not among those of the family are
    fixed.
    """
    if isinstance(family, str):
        if "(" not in family and family not in potentials.REGISTRY:
            raise unknown("family", family, KNOWN)
        family = potentials.as_potential(family) if "(" in family else potentials.REGISTRY[family]
    kept: dict[str, float] = {}
    if isinstance(family, potentials.Potential) and family.name in KNOWN:
        kept = {name: value for name, value in family.parameters.items() if name not in KNOWN[family.name]}
        family = type(family)
    if not isinstance(family, type):
        raise ValueError(
            f"family must be a name, a class of potentials, or one of {', '.join(KNOWN)} with its parameters; "
            f"got {family!r}."
        )
    name = getattr(family, "name", "") or family.__name__
    space = dict(KNOWN.get(name, {})) if family in potentials.REGISTRY.values() else {}
    start: dict[str, float] = {}
    if not space:
        defaults = fields(family) if is_dataclass(family) else ()
        start = {field.name: field.default for field in defaults if field.default is not MISSING}
        start |= getattr(family, "initial", None) or {}
    for key, value in (start | dict(initial or {})).items():
        _, low, high = space.get(key, (0.0, -np.inf, np.inf))
        space[key] = (float(value), low, high)
    for key, (low, high) in (dict(getattr(family, "bounds", None) or {}) | dict(bounds or {})).items():
        if key not in space:
            raise unknown("parameter", key, space)
        space[key] = (float(np.clip(space[key][0], low, high)), float(low), float(high))
    if not space:
        raise ValueError(f"{name} has no parameters to choose: give `initial` values by name.")
    if len(space) == 1 and np.isinf([value[1:] for value in space.values()]).any():
        raise ValueError(
            f"a family with one parameter needs finite bounds for it: give `bounds` for {', '.join(space)!r}."
        )
    return partial(family, **kept), space


class _Search:
    # of the parameters with the largest ASL threshold, between `low` and `high`
    def __init__(self, target: Callable[[Reals], Target], low: Reals, high: Reals, bar: progress_bar) -> None:
        self.target, self.low, self.high, self.bar = target, low, high, bar
        self.last, self.best, self.count = 0.0, 0.0, 0

    def load(self, x: Reals) -> float:
        target = self.target(x)
        load = _followed(target, self.last) if self.last else None
        if load is None:
            found = asl_threshold(target)
            load = 0.0 if found is None else max(found[0], 0.0)
        self.count += 1
        self.last = load or self.last
        self.best = max(self.best, load)
        self.bar.advance(0, note=f"alpha = {self.best:.5f}, {self.count} candidates")
        return load

    def run(self, start: Reals) -> Reals:
        x, load, radius = start, self.load(start), 0.25
        if load <= 0:
            raise ValueError(
                f"no load can be sampled with {self.target(start)}, where the search starts: give other initial values."
            )
        if len(start) == 1:
            bounds, options = (self.low[0], self.high[0]), {"xatol": 1e-4}
            found = minimize_scalar(
                lambda x: -self.load(np.array([x])), bounds=bounds, method="bounded", options=options
            )
            return np.array([found.x])
        scale = np.maximum(np.abs(start), 0.3)
        for _ in range(60):
            step, promise = self.step(x, load, scale, radius)
            trial = np.clip(x + step, self.low, self.high)
            new = self.load(trial)
            gain = np.log(new / load) if new > 0 else -1.0
            radius *= 1.6 if gain > 0.7 * promise else 1.0 if gain > 0.3 * promise else 0.35
            if gain > 0:
                x, load = trial, new
            if promise < 1e-7 or radius < 1e-5:
                break
        return x

    def step(self, x: Reals, load: float, scale: Reals, radius: float) -> tuple[Reals, float]:
        # the best step of the parameters, by the slopes of log λ at every depth; and what it promises for log α
        curve = Localization(solve(self.target(x), load))
        depth = np.unique(np.concatenate([np.linspace(0, 8, 49), Landscape(curve).edges]))
        here = np.log(curve.at_depth(depth).instability)
        slopes = [(_log_instability(self.target(x), load * np.exp(1e-4), depth) - here) / 1e-4]
        for k, size in enumerate(1e-4 * scale):
            sign = 1 if x[k] + size <= self.high[k] else -1
            moved = x + sign * size * np.eye(len(x))[k]
            slopes.append((_log_instability(self.target(moved), load, depth) - here) / (sign * 1e-4))
        least, most = np.maximum(-radius, (self.low - x) / scale), np.minimum(radius, (self.high - x) / scale)
        bounds = [(-0.3, 0.3), *zip(least.tolist(), most.tolist())]
        found = linprog([-1.0, *np.zeros(len(x))], np.transpose(slopes), np.maximum(-here, 0.0), bounds=bounds)
        if found.x is None:
            return np.zeros(len(x)), 0.0
        return found.x[1:] * scale, float(found.x[0])


def _followed(target: Target, alpha: float) -> float | None:
    # the load of max λ = 1 by the secant method from a neighbour's; None where that does not settle
    def excess(x: float) -> float:
        return float(np.log(Landscape(Localization(solve(target, float(np.exp(x))))).peak[1]))

    x, slope = float(np.log(alpha)), 6.0
    with suppress(ValueError):
        value = excess(x)
        for _ in range(8):
            if np.isinf(value):
                break
            step = float(np.clip(-value / slope, -0.1, 0.1))
            if abs(step) < 1e-8:
                return float(np.exp(x + step))
            new = excess(x + step)
            slope = float(np.clip((new - value) / step, 0.5, 100.0)) if np.isfinite(new) else slope
            x, value = x + step, new
    return None


def _log_instability(target: Target, load: float, depth: Reals) -> Reals:
    return np.log(Localization(solve(target, load)).at_depth(depth).instability)
