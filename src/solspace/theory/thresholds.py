"""The loads at which the phases of a target end (theory notes 3.1 and 7): roots of functions along its `Branch`.

* dAT: the replicon reaches 1, λ(r) = 1;
* ASL: F stops rising somewhere, max_q λ(q) = 1: at a cusp inside, unless the dAT line comes first;
* dynamical (d1RSB): at t = 0 a second maximum of φ_0 appears, min F = 0 beyond the first turning point;
* condensation (static 1RSB): at t = 0 it is as high as the first;
* zero entropy: the entropy of this measure of ±1 weights vanishes, and its typical samples end;
* capacity: the constraints stop having solutions, whatever the potential (`capacity`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Literal, overload

import numpy as np

from solspace.measure import Target
from solspace.measure.priors import Gaussian
from solspace.numerics.roots import root_between
from solspace.system.checks import one_of
from solspace.system.plain import Record, Values, html_table
from solspace.theory import planted_thresholds
from solspace.theory.branch import Branch
from solspace.theory.capacity import capacity, gardner, one_step
from solspace.theory.franz_parisi import overlap_gap
from solspace.theory.planted_thresholds import PlantedThresholds
from solspace.theory.prediction import ENSEMBLES
from solspace.theory.reference import Equilibrium


@dataclass(frozen=True)
class Thresholds(Record):
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
        Where the entropy of *this* measure vanishes: its typical samples end there, solutions need not. Discrete weights only.
    capacity : float or None
        Where the constraints stop having solutions, whatever the potential and the temperature; soft potentials
        have the constraints s >= κ. Discrete weights: zero entropy of the uniform measure on the solutions. Sphere: the
        one-step (1RSB) value, which equals Gardner's for margins >= 0. Gaussian weights: Gardner's at the best norm.
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

    @cached_property
    def overlap_gap(self) -> float | None:
        """The load at which a gap opens around fair samples: no solution lies at some distances from them, but further off.

        By the replica-symmetric `franz_parisi`, at loads up to `capacity`, whether or not the measure still has typical samples
        there (`zero_entropy`). 0 where samples are isolated at every load; None where there is no gap, for soft potentials, and
        for weights that are not discrete. Computed at first use, in seconds.

        Examples
        --------
        >>> thresholds(Target(potential="uniform")).overlap_gap
        0.0
        """
        return overlap_gap(self.target)

    def _values(self) -> Values:
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"target": self.target.to_dict()}

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


@overload
def thresholds(target: Target, ensemble: Literal["random"] = "random") -> Thresholds: ...
@overload
def thresholds(target: Target, ensemble: Literal["planted"]) -> PlantedThresholds: ...
@overload
def thresholds(target: Target, ensemble: str) -> Thresholds | PlantedThresholds: ...
def thresholds(target: Target, ensemble: str = "random") -> Thresholds | PlantedThresholds:
    """Compute the loads at which the phases of `target` end (theory notes 3.1, 7 and 13).

    Parameters
    ----------
    target : Target
        Measure over the weights.
    ensemble : {"random", "planted"}, default "random"
        Labels without a rule, or drawn from a teacher's.

    Returns
    -------
    Thresholds or PlantedThresholds
        `asl`, `dat`, `dynamical`, `condensation`, `zero_entropy` and `capacity`; of planted problems `information`,
        `spinodal` and `localization`. None where there is no such load.

    Raises
    ------
    ValueError
        If no labels can be drawn from a planted target.

    Examples
    --------
    >>> found = thresholds(Target())
    >>> round(found.zero_entropy, 7), round(found.capacity, 7)
    (0.6832185, 0.8330786)
    """
    if one_of(ENSEMBLES)("ensemble", ensemble) == "planted":
        return planted_thresholds.thresholds(target)
    branch = Branch(target)
    dat, ends = branch.load(branch.dat), {"zero_entropy": branch.zero_entropy, "capacity": capacity(target)}
    if not (target.prior.discrete or isinstance(target.prior, Gaussian)):
        ends |= {"capacity_rs": gardner(target), "capacity_1rsb": one_step(target)}
    if branch.fails:
        return Thresholds(target, 0.0, "edge", dat, 0.0, branch.zero_entropy, **ends)
    asl_by, asl = None if dat is None else "dAT", dat
    if branch.cusp is not None:
        asl_by, asl = "cusp", branch.load(branch.cusp)
        landscape = branch.landscape(branch.cusp)  # at its peak λ touches 1
        _, variance = landscape.curve.distances(landscape.peak[0])
        time = float(landscape.curve.at_depth([landscape.peak[0]]).time[0])
        ends |= {"cusp_overlap": 1 - float(variance[0]), "cusp_time": time}
    # else nothing stops localization before the typical samples end, or the solutions; soft measures go on
    elif dat is None and ends["zero_entropy"] is not None:
        asl_by, asl = "zero_entropy", ends["zero_entropy"]
    elif dat is None and target.potential.hard and ends["capacity"] is not None:
        asl_by, asl = "capacity", ends.get("capacity_rs") or ends["capacity"]
    dynamical, condensation = map(branch.load, branch.static)
    return Thresholds(target, asl, asl_by, dat, dynamical, condensation, **ends)


def asl_threshold(target: Target) -> tuple[float, Equilibrium] | None:
    """Return the load at which localization stops, and the equilibrium there; None where it fails at every load.

    Where F rises at every load, the one at the end of the branch is returned.
    """
    branch = Branch(target)
    if branch.fails:
        return None
    state = branch.equilibrium(next(u for u in (branch.cusp, branch.dat, branch.end) if u is not None))
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
        return -1.0 if branch.dat is None else branch.initial_slope(branch.dat)

    margins = np.linspace(low, high, 15)
    rises = np.array([rise(float(margin)) > 0 for margin in margins])
    last = np.flatnonzero(rises[:-1] & ~rises[1:])
    return root_between(rise, margins[last[0]], margins[last[0] + 1]) if len(last) else None
