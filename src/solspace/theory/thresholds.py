"""The loads at which the phases of a target end (theory notes 3.1 and 7): roots of functions along its `Branch`.

* dAT: the replicon reaches 1, λ(r) = 1;
* ASL: F stops rising somewhere, max_q λ(q) = 1: at a cusp inside, unless the dAT line comes first;
* dynamical (d1RSB): at t = 0 a second maximum of φ_0 appears, min F = 0 beyond the first turning point;
* condensation (static 1RSB): at t = 0 it is as high as the first;
* zero entropy: the entropy of this measure of ±1 weights vanishes, and its typical samples end;
* capacity: the constraints stop having solutions, whatever the potential (`capacity`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from solspace.measure import Target
from solspace.numerics.roots import first_root, root_between
from solspace.system.plain import Values, html_table
from solspace.theory.branch import Branch
from solspace.theory.capacity import capacity, gardner, one_step
from solspace.theory.edge import divergence
from solspace.theory.localization import Localization
from solspace.theory.reference import Equilibrium


@dataclass(frozen=True)
class Thresholds:
    """The loads at which the phases of a target end; None where there is no such load.

    Attributes
    ----------
    target : Target
        The measure.
    asl : float or None
        Where sampling by localization stops.
    asl_by : str or None
        Why: "cusp", "dAT", "edge" (a maximum at q = 1 at every load: 0), "zero_entropy" or "capacity" (not before).
    dat : float or None
        Where the replica-symmetric solution becomes unstable.
    dynamical, condensation : float or None
        Where, at t = 0, a second maximum appears, and becomes the higher one.
    zero_entropy : float or None
        Where the entropy of *this* measure vanishes: its typical samples end there, solutions need not. ±1 weights only.
    capacity : float or None
        Where the constraints stop having solutions, whatever the potential and the temperature; soft potentials
        have the constraints s >= κ. ±1 weights: zero entropy of the uniform measure on the solutions. Sphere: the
        one-step (1RSB) value, which equals Gardner's for margins >= 0.
    capacity_rs, capacity_1rsb : float or None
        The sphere's two values: Gardner's, and with one step of replica symmetry breaking.
    cusp_overlap, cusp_time : float or None
        q and t at which the second maximum is born, where ASL stops by a cusp.

    Examples
    --------
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
    zero_entropy: float | None
    capacity: float | None
    capacity_rs: float | None = None
    capacity_1rsb: float | None = None
    cusp_overlap: float | None = None
    cusp_time: float | None = None

    def to_dict(self) -> Values:
        """Return the thresholds as plain values.

        Returns
        -------
        dict
            By name; None where there is no such threshold.
        """
        return {"target": self.target.to_dict()} | {k: v for k, v in asdict(self).items() if k != "target"}

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the thresholds as rows of a table.

        Returns
        -------
        list of tuple of str
            Name, load, and explanation.
        """
        stops = "a maximum at q = 1 at every load" if self.asl_by == "edge" else str(self.asl_by)
        rows = [
            ("ASL", self.asl, stops),
            ("dAT", self.dat, "RS unstable above"),
            ("dynamical", self.dynamical, "d1RSB"),
            ("condensation", self.condensation, "static 1RSB"),
            ("zero entropy", self.zero_entropy, "of this measure"),
            ("capacity", self.capacity, "of the constraints"),
            ("capacity, RS", self.capacity_rs, "Gardner"),
            ("capacity, 1RSB", self.capacity_1rsb, ""),
        ]
        seldom = ("zero entropy", "capacity, RS", "capacity, 1RSB")  # shown where there is one
        found = [(name, f"{load:.9g}", why) if load is not None else (name, "none", "") for name, load, why in rows]
        return [row for row in found if row[0] not in seldom or row[1] != "none"]

    def __repr__(self) -> str:
        lines = [f"  {name:<15} {load} {f'({why})' if why else ''}".rstrip() for name, load, why in self.rows()]
        return "\n".join([f"Thresholds (loads alpha) of {self.target}, replica symmetric:", *lines])

    def _repr_html_(self) -> str:
        columns = ("threshold", "load α", "")
        return html_table(f"Thresholds of {self.target}, replica symmetric", self.rows(), columns)


def thresholds(target: Target) -> Thresholds:
    """Compute the loads at which the phases of `target` end (theory notes 3.1 and 7).

    Parameters
    ----------
    target : Target
        Measure over the weights.

    Returns
    -------
    Thresholds
        `asl`, `dat`, `dynamical`, `condensation`, `zero_entropy` and `capacity`; None where there is no such load.

    Examples
    --------
    >>> found = thresholds(Target())
    >>> round(found.zero_entropy, 7), round(found.capacity, 7)
    (0.6832185, 0.8330786)
    """
    if not isinstance(target, Target):
        raise ValueError(f"target must be a solspace.Target; got {target!r}.")
    branch = Branch(target)
    dat = _dat(branch)
    ends: dict[str, float | None] = {"zero_entropy": branch.zero_entropy, "capacity": capacity(target)}
    if not target.prior.discrete:
        ends |= {"capacity_rs": gardner(target), "capacity_1rsb": one_step(target)}
    if divergence(target)[0] > target.prior.conjugate_growth:
        dat_load = None if dat is None else branch.load(dat)
        return Thresholds(target, 0.0, "edge", dat_load, 0.0, branch.zero_entropy, **ends)
    cusp = _cusp(branch, branch.end if dat is None else dat)
    first = cusp if cusp is not None else dat
    asl_by, asl = _end_of_sampling(target, ends)
    if first is not None:
        asl_by, asl = "cusp" if cusp is not None else "dAT", branch.load(first)
    dynamical = condensation = None
    if cusp is not None:
        ends |= dict(zip(("cusp_overlap", "cusp_time"), _birth(branch, cusp)))
        end = branch.end if dat is None else dat - 1e-9
        dynamical = first_root(lambda x: -branch.lowest(x), _scan(cusp, end))
        if dynamical is not None:
            condensation = first_root(branch.advantage, _scan(dynamical, end))
    at = [None if x is None else branch.load(x) for x in (dat, dynamical, condensation)]
    return Thresholds(target, asl, asl_by, at[0], at[1], at[2], **ends)


def _end_of_sampling(target: Target, ends: dict[str, float | None]) -> tuple[str | None, float | None]:
    # where nothing stops localization before: with the typical samples, or the solutions; soft measures go on
    if ends["zero_entropy"] is not None:
        return "zero_entropy", ends["zero_entropy"]
    if target.potential.hard and ends["capacity"] is not None:
        return "capacity", ends.get("capacity_rs") or ends["capacity"]
    return None, None


def _birth(branch: Branch, cusp: float) -> tuple[float, float]:
    # overlap and time at which λ touches 1
    landscape = branch.landscape(cusp)
    _, variance = landscape.curve.distances(landscape.peak[0])
    return 1 - float(variance[0]), float(landscape.curve.at_depth([landscape.peak[0]]).time[0])


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

    For the uniform measure on the sphere by default; the margin of another `target` is ignored. None
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
    rises = np.array([rise(float(margin)) > 0 for margin in margins])
    last = np.flatnonzero(rises[:-1] & ~rises[1:])
    return root_between(rise, margins[last[0]], margins[last[0] + 1]) if len(last) else None


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
    return root_between(lambda x: branch.equilibrium(x).replicon - 1, u[above[0] - 1], u[above[0]])


def _cusp(branch: Branch, end: float) -> float | None:
    # the first coordinate at which λ exceeds 1 away from q = r; None where it does not before `end`
    state = branch.equilibrium(end)
    if abs(state.replicon - 1) < 1e-8:
        if _initial_slope(Localization(state)) <= 0 and branch.peak(end) < 1e-8:
            return None
    elif branch.peak(end) <= 0:
        return None
    u, loads, _ = branch.grid

    def at(share: float) -> float:
        return float(np.interp(np.log(state.alpha * share), np.log(loads), u))

    share = 0.2
    while branch.peak(at(share)) > 0:
        share /= 4
        if share < 1e-12:
            return at(share)
    shares = (share, 0.4, 0.6, 0.75, 0.87, 0.95) if share == 0.2 else (share, 4 * share)
    return first_root(branch.peak, [*map(at, shares), end])


def _scan(low: float, high: float) -> list[float]:
    return (low + (high - low) * np.array([0.0, 0.05, 0.12, 0.2, 0.35, 0.5, 0.75, 1.0])).tolist()
