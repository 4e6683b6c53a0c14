"""How many solutions lie at overlap p with a fair sample of another measure: the Franz–Parisi potential (theory notes 15).

The equations are in `probe`. Where their curve falls below zero there is an overlap gap: no solution lies that close.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.roots import Status
from solspace.system.checks import instance, number, reals, shown
from solspace.system.plain import Record, Values, plain
from solspace.theory.capacity import capacity, counting
from solspace.theory.edge import divergence
from solspace.theory.probe import AROUND, NEAREST, Curve

POINTS, CLOSE = (
    30,
    0.03,
)  # of the grid where no overlaps are set: √(1 - p) falls to this share of its value without a field


@dataclass(frozen=True)
class FranzParisi(Record):
    """The number of solutions at each overlap with a fair sample of a reference, as n → ∞; returned by `franz_parisi`.

    Attributes
    ----------
    reference, probe : Target
        The measure of the sample, and that of the solutions around it.
    alpha : float
        The load.
    overlaps : ndarray
        (j,) overlaps p with the sample.
    values : ndarray
        (j,) v(p): log number (±1 weights) or log volume (sphere) of the solutions at that overlap, per weight; for a probe with
        another potential, log Z. NaN where the curve has ended.
    fields : ndarray
        (j,) -v'(p), the field along the sample that holds the solutions there.
    probe_overlaps : ndarray
        (j,) q, the overlap of two solutions at the same overlap with the sample.
    replicons : ndarray
        (j,) below 1 the replica-symmetric solution is stable.
    converged : ndarray of bool
        (j,), whether the equations were solved.
    free_overlap, free_value : float
        p and v without a field, where v is largest: typical solutions, independent of the sample.
    accuracy : float
        Largest relative error of the integrals.

    Examples
    --------
    >>> curve = franz_parisi(Target(), alpha=0.3, overlaps=[0.6, 0.9])
    >>> curve.values.round(7), curve.stable
    (array([0.412387, 0.181102]), array([ True,  True]))
    """

    reference: Target
    probe: Target
    alpha: float
    overlaps: Array
    values: Array
    fields: Array
    probe_overlaps: Array
    replicons: Array
    converged: Array
    free_overlap: float
    free_value: float
    accuracy: float

    @property
    def distances(self) -> Array:
        """(j,) distances d = (1 - p)/2, for ±1 weights the share of weights that differ."""
        return (1 - self.overlaps) / 2

    @property
    def stable(self) -> Array:
        """(j,) bools, whether the replica-symmetric solution is stable there: replicon < 1."""
        return self.replicons < 1

    @property
    def status(self) -> Status:
        """Whether all equations were solved, and the integrals are accurate."""
        solved = Status.CONVERGED if self.converged.all() else Status.MAX_STEPS
        return solved.then(Status.of_error(self.accuracy))

    @cached_property
    def gap(self) -> float | None:
        """Overlap beyond which there is a gap: v falls below zero there, and no solution lies that close, or only a few do.

        None where v stays positive up to p = 1. It is searched for at all overlaps, computed or not, and belongs to discrete
        weights and a probe that counts solutions; None for others.
        """
        if not (self.probe.prior.discrete and self.probe == counting(self.probe)):
            return None
        return Curve(self.reference, self.probe, self.alpha).first_zero()

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw v(p) against the distance d.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide.
        **style : Any
            Properties of the line, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> from matplotlib import pyplot
        >>> ax = franz_parisi(Target(), alpha=0.3).plot(color="k")
        >>> ax.get_xlabel()
        'distance $d = (1 - p)/2$'
        >>> pyplot.close(ax.figure)
        """
        from solspace.plots.geometry import plot_franz_parisi

        return plot_franz_parisi(self, ax, **style)

    def _values(self) -> Values:
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: value.to_dict() if isinstance(value, Target) else plain(value) for name, value in own.items()}

    def __repr__(self) -> str:
        low, high = float(self.overlaps.min()), float(self.overlaps.max())
        return f"FranzParisi({self.probe} around {self.reference}, alpha = {self.alpha:g}, p = {low:.4g} to {high:.4g})"


def franz_parisi(
    reference: Target, alpha: float, probe: Target | None = None, overlaps: ArrayLike | None = None
) -> FranzParisi:
    """Compute how many solutions lie at each overlap with a fair sample of `reference`, as n → ∞ (theory notes 15).

    Replica symmetric. Both measures live on the same patterns. Constraints of any kind and margin; ±1 and spherical weights.

    Parameters
    ----------
    reference : Target
        Measure of the sample in the centre.
    alpha : float
        Load, constraints per weight, > 0.
    probe : Target, optional
        Measure of the solutions around it; by default all that meet the constraints of `reference`, counted once each.
    overlaps : array_like, optional
        (j,) overlaps with the sample, between -1 and 1; by default 30, from the one of typical solutions to nearly 1, or to the
        end of the curve.

    Returns
    -------
    FranzParisi
        The curve v(p), its derivative and the overlap gap.

    Raises
    ------
    ValueError
        If `alpha` is not positive, an overlap is not inside (-1, 1), or the weights are others, or different ones.

    Warns
    -----
    UserWarning
        If the curve ends: no state of the equations was found at some overlaps.

    See Also
    --------
    local_entropy : The same curve around given weights of one problem.

    Examples
    --------
    >>> around_log, around_typical = franz_parisi(Target(), 0.3), franz_parisi(Target(potential="uniform"), 0.3)
    >>> around_log.gap, round(around_typical.gap, 4)
    (None, 0.9977)
    """
    target, alpha = instance(Target)("reference", reference), number(positive=True)("alpha", alpha)
    other = counting(target) if probe is None else instance(Target)("probe", probe)
    kinds = {type(one.prior) for one in (target, other)}
    if len(kinds) > 1 or not kinds <= set(AROUND):
        raise ValueError(
            "franz_parisi takes a reference and a probe with the same weights, binary or spherical; got "
            f"{target.prior} and {other.prior}."
        )
    curve = Curve(target, other, alpha)
    if overlaps is None:
        wanted = 1 - curve.start.distance * np.linspace(1, CLOSE, POINTS) ** 2
    else:
        wanted = np.atleast_1d(reals("overlaps", overlaps))
        if wanted.ndim != 1 or not (np.abs(wanted) <= 1 - NEAREST).all():
            raise ValueError(
                f"overlaps must be numbers between -1 and 1, at least {NEAREST:g} away; got {shown(overlaps)}."
            )
    points = curve.along(1 - wanted)
    solved = np.array([point.solved for point in points], dtype=bool)
    if overlaps is None:  # up to where the curve ends
        points, wanted, solved = [point for point in points if point.solved], wanted[solved], solved[solved]
    if not solved.all():
        lost = np.abs(wanted[~solved] - (1 - curve.start.distance)).argmin()
        warnings.warn(
            f"the curve ends: no state of the equations was found at overlap {wanted[~solved][lost]:.4g} and beyond, where "
            "`converged` is False. Take overlaps closer to `free_overlap`, or a lower alpha.",
            stacklevel=2,
        )
    column = {
        name: np.array([getattr(point, name) for point in points]) for name in ("value", "field", "excess", "replicon")
    }
    own = {name: np.where(solved, values, np.nan) for name, values in column.items()}
    return FranzParisi(
        target, other, alpha, wanted, own["value"], own["field"], own["excess"] + wanted**2, own["replicon"], solved,
        1 - curve.start.distance, curve.start.value, max(point.error for point in [curve.start, *points]),
    )  # fmt: skip


def overlap_gap(target: Target) -> float | None:
    """Return the load at which a gap opens around fair samples of `target`; None where there is none up to capacity.

    The probe counts solutions. Zero where samples are isolated at every load: their weight does not vanish fast enough at the
    margin (W ~ s^β with β < 1), so that some stabilities are closer to it than a few changed weights allow.

    >>> overlap_gap(Target(potential="uniform")), overlap_gap(Target("spherical"))
    (0.0, None)
    """
    probe = counting(target)
    if type(target.prior) not in AROUND or not (target.prior.discrete and target.potential.hard):
        return None
    if divergence(target)[0] > target.prior.conjugate_growth:
        return 0.0
    most = capacity(target)
    assert most is not None

    def depth(alpha: float) -> float:
        return Curve(target, probe, alpha).depth()

    if depth(most) > 0:
        return None
    low = next((share * most for share in (0.8, 0.5, 0.2, 0.05, 0.01) if depth(share * most) > 0), None)
    return 0.0 if low is None else float(brentq(depth, low, most, xtol=1e-8))
