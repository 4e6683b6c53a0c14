"""The loads at which something happens (theory notes 3.1 and 7).

Read backwards, the reference equation gives the load α(r̂) that every conjugate belongs to; so all thresholds
are roots of one function of log r̂ along the branch of solutions, and nothing is solved inside. Where the
potential is even, r = 0 at every load and the branch is the load itself.

* dAT: the replicon reaches 1, λ(r) = 1;
* ASL: F stops rising somewhere, max_q λ(q) = 1: at a cusp inside, unless the dAT line comes first;
* dynamical (d1RSB): at t = 0 a second maximum of φ_0 appears, min F = 0 beyond the first turning point;
* condensation (static 1RSB): at t = 0 it is as high as the first;
* capacity: zero entropy (±1 weights), vanishing volume (sphere).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq

from solspace.measure import Target
from solspace.theory import capacity as _capacity
from solspace.theory.branch import Branch
from solspace.theory.localization import Localization
from solspace.theory.reference import Equilibrium
from solspace.theory.walls import divergence

PRECISE = {"xtol": 1e-11, "rtol": 1e-12, "maxiter": 100}


@dataclass(frozen=True)
class Thresholds:
    """The loads of a target at which something happens; None where it never does.

    Attributes
    ----------
    asl
        Where sampling by localization stops; `asl_by` says why: "cusp", "dAT", "edge" (a maximum at q = 1 at
        every load: 0) or "capacity" (it never stops before).
    dat
        Where the replica-symmetric solution becomes unstable.
    dynamical, condensation
        Where, at t = 0, a second maximum appears, and becomes the higher one.
    capacity
        ±1 weights: zero entropy of the measure. Sphere: the one-step (1RSB) value, which equals Gardner's for
        margins >= 0.
    capacity_rs, capacity_1rsb
        The sphere's two values: Gardner's, and with one step of replica symmetry breaking.

    >>> t = thresholds(Target("spherical", "uniform", margin=-2.5))
    >>> round(t.asl, 5), round(t.dat, 5), t.asl_by
    (269.73596, 328.70898, 'cusp')
    """

    target: Target
    asl: float | None
    asl_by: str | None
    dat: float | None
    dynamical: float | None
    condensation: float | None
    capacity: float | None
    capacity_rs: float | None = None
    capacity_1rsb: float | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the thresholds as plain values."""
        return {"target": self.target.to_dict()} | {k: v for k, v in asdict(self).items() if k != "target"}

    def __repr__(self) -> str:
        rows = [
            (
                "ASL",
                self.asl,
                {"edge": "(a maximum at q = 1 at every load)"}.get(self.asl_by or "", f"({self.asl_by})"),
            ),
            ("dAT", self.dat, "(RS unstable above)"),
            ("dynamical", self.dynamical, "(d1RSB)"),
            ("condensation", self.condensation, "(static 1RSB)"),
            ("capacity", self.capacity, ""),
            *([("capacity, RS", self.capacity_rs, "(Gardner)")] if self.capacity_rs is not None else []),
            *([("capacity, 1RSB", self.capacity_1rsb, "")] if self.capacity_1rsb is not None else []),
        ]
        lines = [f"  {n:<15} {'none' if v is None else f'{v:.9g} {words}'}".rstrip() for n, v, words in rows]
        return "\n".join([f"Thresholds (loads alpha) of {self.target}, replica symmetric:", *lines])


def thresholds(target: Target) -> Thresholds:
    """Return the loads of `target` at which sampling, stability or solutions end.

    >>> round(thresholds(Target("binary", "uniform")).capacity, 9)
    0.8330786
    """
    if not isinstance(target, Target):
        raise ValueError(f"target must be a solspace.Target; got {target!r}.")
    branch = Branch(target)
    dat = _dat(branch)
    capacity, rs, one = _capacities(branch)
    if divergence(target)[0] > target.prior.conjugate_growth:
        dat_load = None if dat is None else branch.load(dat)
        return Thresholds(target, 0.0, "edge", dat_load, 0.0, capacity, capacity, rs, one)
    cusp = _cusp(branch, branch.end if dat is None else dat)
    first = cusp if cusp is not None else dat
    asl_by = "cusp" if cusp is not None else "dAT" if dat is not None else "capacity"
    asl = branch.load(first) if first is not None else rs or capacity
    dynamical = condensation = None
    if cusp is not None:
        end = _before_end(branch, dat)
        dynamical = _crossing(lambda x: -branch.lowest(x), cusp, end)
        if dynamical is not None:
            condensation = _crossing(branch.advantage, dynamical, end)
    at = [None if x is None else branch.load(x) for x in (dat, dynamical, condensation)]
    reason = asl_by if asl is not None else None
    return Thresholds(target, asl, reason, at[0], at[1], at[2], capacity, rs, one)


def asl_threshold(target: Target) -> tuple[float, Equilibrium] | None:
    """Return the load at which localization stops, and the equilibrium there; None where it fails at every load.

    Where F rises at every load, the one at the end of the branch is returned.
    """
    if divergence(target)[0] > target.prior.conjugate_growth:
        return None
    branch = Branch(target)
    dat = _dat(branch)
    cusp = _cusp(branch, branch.end if dat is None else dat)
    first = cusp if cusp is not None else dat if dat is not None else branch.end
    state = branch.equilibrium(first)
    return state.alpha, state


def tricritical_margin(target: Target | None = None, low: float = -4.0, high: float = -0.5) -> float | None:
    """Return the margin at which the ASL line leaves the dAT line for a cusp: λ stops falling at q = r on the dAT line.

    For the uniform measure on the sphere unless another `target` is given (its own margin is ignored); None
    where no such margin lies between `low` and `high`.

    >>> round(tricritical_margin(), 5)
    -2.04312
    """
    target = Target("spherical", "uniform") if target is None else target

    def rise(margin: float) -> float:
        branch = Branch(target.replace(margin=margin))
        dat = _dat(branch)
        if dat is None:
            return -1.0
        return _initial_slope(Localization(branch.equilibrium(dat)))

    margins = np.linspace(low, high, 15)
    values = [rise(float(margin)) for margin in margins]
    for k in range(len(margins) - 1):
        if (values[k] > 0) != (values[k + 1] > 0) and values[k] > 0:
            return float(brentq(rise, margins[k], margins[k + 1], **PRECISE))
    return None


def _initial_slope(curve: Localization) -> float:
    # dλ/dy at q = r, by a polynomial through exact values
    y = 0.2 * (1 - np.cos(np.pi * (np.arange(10) + 0.5) / 10)) / 2
    fit = np.polynomial.Polynomial.fit(y, curve.at_depth(y).instability, 9)
    return float(fit.deriv()(0.0))


def _dat(branch: Branch) -> float | None:
    u, _, replicon = branch.grid
    above = np.flatnonzero(replicon >= 1)
    if len(above) == 0 or above[0] == 0:
        return None
    return float(brentq(lambda x: branch.equilibrium(x).replicon - 1, u[above[0] - 1], u[above[0]], **PRECISE))


def _cusp(branch: Branch, end: float) -> float | None:
    # the first coordinate at which λ exceeds 1 away from q = r; None where it does not before `end`
    dat = abs(branch.equilibrium(end).replicon - 1) < 1e-8
    if dat:
        if _initial_slope(Localization(branch.equilibrium(end))) <= 0 and branch.peak(end) < 1e-8:
            return None
    elif branch.peak(end) <= 0:
        return None
    u, loads, _ = branch.grid

    def at(share: float) -> float:
        return float(np.interp(np.log(branch.load(end) * share), np.log(loads), u))

    share = 0.2
    while branch.peak(at(share)) > 0:
        share /= 4
        if share < 1e-12:
            return at(share)
    low = at(share)
    for high in [at(x) for x in (0.4, 0.6, 0.75, 0.87, 0.95) if share == 0.2] + [at(min(4 * share, 1.0)), end]:
        if high > low and branch.peak(high) > 0:
            return float(brentq(branch.peak, low, high, **PRECISE))
        low = max(low, high)
    return None


def _before_end(branch: Branch, dat: float | None) -> float:
    return branch.end if dat is None else dat - 1e-9


def _crossing(function: Callable[[float], float], low: float, high: float) -> float | None:
    # the first sign change of a function that is negative at `low`
    grid = low + (high - low) * np.array([0.05, 0.12, 0.2, 0.35, 0.5, 0.75, 1.0])
    start = low
    for x in grid.tolist():
        if function(x) > 0:
            return float(brentq(function, start, x, **PRECISE))
        start = x
    return None


def _capacities(branch: Branch) -> tuple[float | None, float | None, float | None]:
    target = branch.target
    if target.prior.conjugate_growth > 0:
        rs, one = _capacity.gardner(target), _capacity.one_step(target)
        return _capacity.capacity(target), rs, one
    u, _, _ = branch.grid
    if branch.even:
        state = branch.equilibrium(0.0)  # α = 1: the entropy is linear in α
        start = float(target.prior.reference([0.0]).entropy[0])
        loss = start - branch.entropy(0.0)
        return (start / loss if loss > 0 and state.alpha else None), None, None
    low = float(u[0])
    for x in u[::4].tolist():
        if branch.entropy(x) < 0:
            return branch.load(float(brentq(branch.entropy, low, x, **PRECISE))), None, None
        low = x
    return None, None, None
