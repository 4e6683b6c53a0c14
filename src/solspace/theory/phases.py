"""Maps: regimes of localization in the time–load plane, and all thresholds against the margin or the width of a band.

A column of the t–α diagram needs one curve F: its turning points are the spinodal times, equal heights the
Maxwell time, and every t of the column is green, yellow or red by where it lies among them. So the lines are
exact at each load, and a window narrower than the grid of times is in `spinodal_low`, `maxwell` and
`spinodal_high` even when no grid point falls into it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solspace.measure import Target
from solspace.numerics.arrays import Bools, Reals
from solspace.system.checks import one_of
from solspace.system.plain import Record, Values
from solspace.system.progress import progress as progress_bar
from solspace.theory import planted
from solspace.theory.localization import Window
from solspace.theory.planted_thresholds import PlantedThresholds
from solspace.theory.prediction import ENSEMBLES, Prediction, doubt, predict
from solspace.theory.thresholds import Thresholds, thresholds, tricritical_margin

REGIMES = ("green", "yellow", "red", "none")


@dataclass(frozen=True, eq=False)
class PhaseDiagram(Record):
    """Regimes of localization on a grid of times and loads, and the exact lines between them.

    Attributes
    ----------
    target : Target
        The measure.
    alphas, times : ndarray
        Loads (k,) and times (j,).
    regimes : ndarray of str
        (j, k) of "green", "yellow", "red", or "none" where the equations have no solution.
    spinodal_low, maxwell, spinodal_high : ndarray
        (k,) times: from `spinodal_low` on φ_t has an upper maximum, from `maxwell` on it is the higher one, and at
        `spinodal_high` the lower one ends. NaN at loads without a window; -inf (or negative) where it is so already at t = 0.
    samplable, stable, populated, satisfiable : ndarray of bool
        (k,) flags of the prediction at each load.
    entropy : ndarray
        (k,) entropy of the measure; NaN where the equations have no solution.
    notes : tuple of str
        Loads without a solution, and numbers that are not accurate.
    ensemble : {"random", "planted"}
        Where the labels come from.

    Examples
    --------
    >>> diagram = phase_diagram(Target("spherical", "uniform", margin=-2.5), [272, 278], [0.0, 0.03, 0.04])
    >>> diagram.regimes.T.tolist()
    [['green', 'green', 'green'], ['green', 'yellow', 'red']]
    >>> diagram.maxwell.round(6)
    array([0.060595, 0.036297])
    """

    target: Target
    alphas: Reals
    times: Reals
    regimes: NDArray[np.str_]
    spinodal_low: Reals
    maxwell: Reals
    spinodal_high: Reals
    samplable: Bools
    stable: Bools
    populated: Bools
    satisfiable: Bools
    entropy: Reals
    notes: tuple[str, ...] = ()
    ensemble: str = "random"

    LINES: ClassVar = ("spinodal_low", "maxwell", "spinodal_high")
    FLAGS: ClassVar = ("samplable", "stable", "populated", "satisfiable")

    @property
    def codes(self) -> NDArray[np.int8]:
        """The regimes (times, alphas) as 0 green, 1 yellow, 2 red, -1 none."""
        return np.select([self.regimes == name for name in REGIMES], [0, 1, 2, -1]).astype(np.int8)

    @property
    def title(self) -> str:
        """The target, and that it is planted."""
        return f"{self.target}{', planted' if self.ensemble == 'planted' else ''}"

    def plot(self, ax: Any = None, thresholds: Thresholds | PlantedThresholds | None = None, **style: Any) -> Any:
        """Draw the regimes between their exact lines, with loads beyond capacity in grey.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column wide.
        thresholds : Thresholds or PlantedThresholds, optional
            Thresholds of the target, to be marked.
        **style : Any
            Properties of the lines, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from solspace.plots.diagrams import plot_diagram

        return plot_diagram(self, ax, thresholds, **style)

    def _values(self) -> Values:
        lists = {name: getattr(self, name).tolist() for name in ("alphas", "times", "regimes", *self.FLAGS)}
        lines = {name: _plain(getattr(self, name)) for name in (*self.LINES, "entropy")}
        about = {"target": self.target.to_dict(), "ensemble": self.ensemble}
        return {**about, **lists, **lines, "notes": list(self.notes)}

    def __repr__(self) -> str:
        head = f"t–alpha diagram of {self.title}: {len(self.times)} times x {len(self.alphas)} loads"
        rows = [f"  {'alpha':>10} {'low spinodal':>13} {'Maxwell':>13} {'high spinodal':>13}  sampling"]
        for k in _few(len(self.alphas)):
            line = (self.spinodal_low[k], self.maxwell[k], self.spinodal_high[k])
            cells = " ".join(f"{_moment(x):>13}" for x in line)
            rows.append(f"  {self.alphas[k]:>10.6g} {cells}  {_verdict(self, k)}")
        return "\n".join([head, *rows, *(f"  {note}" for note in self.notes)])


def phase_diagram(
    target: Target,
    alphas: ArrayLike,
    times: ArrayLike | None = None,
    progress: bool | None = None,
    ensemble: str = "random",
) -> PhaseDiagram:
    """Compute the t–α diagram of a target.

    Parameters
    ----------
    target : Target
        Measure over the weights.
    alphas : array_like
        Loads > 0, (k,).
    times : array_like, optional
        Times >= 0, (j,); by default 51 times from 0 to beyond the last upper spinodal.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.
    ensemble : {"random", "planted"}, default "random"
        Labels without a rule, or drawn from a teacher's: then the diagram is that of the posterior of its weights.

    Returns
    -------
    PhaseDiagram
        Regimes (j, k) and the exact lines between them.

    Raises
    ------
    ValueError
        If a load is not positive or a time is negative.

    Examples
    --------
    >>> found = phase_diagram(Target(), [0.3, 0.66], [0.0, 0.2, 0.27], progress=False)
    >>> found.regimes.T.tolist()
    [['green', 'green', 'green'], ['green', 'yellow', 'red']]
    """
    loads, grid = _axis("alphas", alphas), None if times is None else _axis("times", times)
    if np.any(loads <= 0) or (grid is not None and np.any(grid < 0)):
        raise ValueError("alphas must be positive and times at least 0.")
    if one_of(ENSEMBLES)("ensemble", ensemble) == "planted":
        planted.check(target)
    columns: list[Prediction | None] = []
    notes: list[str] = []
    with progress_bar(len(loads), "t-alpha diagram", progress) as bar:
        for alpha in loads:
            columns.append(_column(target, float(alpha), notes, ensemble))
            bar.advance(note=f"alpha = {alpha:.4g}")
    none = Window(np.nan, np.nan, np.nan)  # else the window that ends last
    lines = np.array([max(p.windows if p else [], key=lambda window: window.high, default=none) for p in columns]).T
    if grid is None:
        last = lines[2][np.isfinite(lines[2])]
        grid = np.linspace(0, 1.25 * last.max() if len(last) else 2.0, 51)
    regimes = np.array([["none"] * len(grid) if p is None else p.regime(grid) for p in columns], dtype="U6").T
    parts: Values = dict(zip(PhaseDiagram.LINES, lines))
    parts |= {name: np.array([getattr(p, name, False) for p in columns], dtype=bool) for name in PhaseDiagram.FLAGS}
    entropy = np.array([getattr(p, "entropy", np.nan) for p in columns])
    return PhaseDiagram(target, loads, grid, regimes, **parts, entropy=entropy, notes=tuple(notes), ensemble=ensemble)


def _column(target: Target, alpha: float, notes: list[str], ensemble: str) -> Prediction | None:
    try:
        p = predict(target, alpha, ensemble)
    except ValueError as error:
        notes.append(str(error))
        return None
    p.to_dict()  # solves all that the diagram shows, and `status` records how that ended
    if not p.status.ok:
        notes.append(f"alpha = {alpha:g}: {doubt(p)}")
    return p


@dataclass(frozen=True, eq=False)
class SamplingMap(Record):
    """All thresholds of a target along an axis, see `Thresholds`: arrays (k,), NaN where there is no such threshold.

    Attributes
    ----------
    target : Target
        The measure; its own margin or width does not count.
    axis : {"margin", "width"}
        What changes: the margin, or the width of a band.
    places : ndarray
        (k,) margins or widths; `margins` and `widths` are the same by name.
    asl, dat, dynamical, condensation, zero_entropy, capacity, capacity_rs, capacity_1rsb : ndarray
        (k,) loads.
    asl_by : tuple of str
        (k,) why sampling by localization stops.
    tricritical : float or None
        The margin at which the ASL line leaves the dAT line, None where it does not within the map.
    """

    target: Target
    axis: str
    places: Reals
    asl: Reals
    dat: Reals
    dynamical: Reals
    condensation: Reals
    zero_entropy: Reals
    capacity: Reals
    capacity_rs: Reals
    capacity_1rsb: Reals
    asl_by: tuple[str | None, ...]
    tricritical: float | None

    CAPACITIES: ClassVar = ("capacity", "capacity_rs", "capacity_1rsb")
    LINES: ClassVar = ("asl", "dat", "dynamical", "condensation", "zero_entropy", *CAPACITIES)

    @property
    def margins(self) -> Reals:
        """The margins of the map."""
        return self._places("margin")

    @property
    def widths(self) -> Reals:
        """The widths of the band along the map."""
        return self._places("width")

    def _places(self, axis: str) -> Reals:
        if axis != self.axis:
            raise AttributeError(f"this map is one over {self.axis}s: it has no {axis}s.")
        return self.places

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw all thresholds; the region that ASL samples is green.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column wide.
        **style : Any
            Properties of the lines, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from solspace.plots.diagrams import sampling_map

        return sampling_map(self, ax, **style)

    def _values(self) -> Values:
        lines = {name: _plain(getattr(self, name)) for name in self.LINES}
        head = {"target": self.target.to_dict(), f"{self.axis}s": self.places.tolist()}
        return head | lines | {"asl_by": list(self.asl_by), "tricritical": self.tricritical}

    def __repr__(self) -> str:
        columns = [name for name in self.LINES if not np.isnan(getattr(self, name)).all()]
        rows = [f"  {self.axis:>9} " + " ".join(f"{name:>13}" for name in columns)]
        for k in _few(len(self.places)):
            values = [getattr(self, name)[k] for name in columns]
            cells = " ".join(f"{'-' if np.isnan(x) else f'{x:.7g}':>13}" for x in values)
            rows.append(f"  {self.places[k]:>9.4g} {cells}")
        note = [] if self.tricritical is None else [f"  tricritical margin {self.tricritical:.6g}"]
        prior, potential = self.target.prior, self.target.potential
        return "\n".join([f"alpha–{self.axis} map of {prior} weights, {potential} potential", *rows, *note])


def sampling_map(
    target: Target, margins: ArrayLike | None = None, widths: ArrayLike | None = None, progress: bool | None = None
) -> SamplingMap:
    """Compute all thresholds of a target over margins, or over widths of a band.

    Parameters
    ----------
    target : Target
        Measure over the weights; its own margin or width is ignored.
    margins : array_like, optional
        Margins κ, (k,).
    widths : array_like, optional
        Widths of a band about the origin (`band`, `log_band`), (k,). Either margins or widths are required.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.

    Returns
    -------
    SamplingMap
        Arrays (k,) of thresholds.

    Raises
    ------
    ValueError
        Unless exactly one of `margins` and `widths` is passed.

    Examples
    --------
    >>> sampling_map(Target(potential="log_band"), widths=[0.8, 1.0]).asl.round(4)
    array([0.6186, 0.9564])
    >>> found = sampling_map(Target("spherical", "uniform"), [-2.5, -1.0])
    >>> found.asl.round(4), found.asl_by
    (array([269.736 ,   7.8736]), ('cusp', 'dAT'))
    """
    if (margins is None) == (widths is None):
        raise ValueError("a map is one over margins or one over widths: give one of the two.")
    axis, places = ("margin", margins) if widths is None else ("width", widths)
    grid = _axis(f"{axis}s", np.asarray(places, dtype=float))
    rows: list[Thresholds] = []
    with progress_bar(len(grid), f"alpha-{axis} map", progress) as bar:
        for place in grid.tolist():
            rows.append(thresholds(target.replace(margin=place) if axis == "margin" else _with_width(target, place)))
            bar.advance(note=f"{axis} = {place:.4g}")
    lines: Values = {name: np.array([getattr(row, name) for row in rows], dtype=float) for name in SamplingMap.LINES}
    reasons = tuple(row.asl_by for row in rows)
    crossing = None
    if axis == "margin" and "cusp" in reasons and "dAT" in reasons:
        crossing = tricritical_margin(target, float(grid.min()), float(grid.max()))
    return SamplingMap(target, axis, grid, **lines, asl_by=reasons, tricritical=crossing)


def _with_width(target: Target, width: float) -> Target:
    potential = target.potential
    if "width" not in potential.parameters:
        raise ValueError(f"widths are those of a band about the origin (band, log_band); got {potential}.")
    return target.replace(potential=type(potential)(**potential.parameters | {"width": width}))


def _axis(name: str, values: ArrayLike) -> Reals:
    axis = np.asarray(values, dtype=float)
    if axis.ndim != 1 or len(axis) == 0 or not np.isfinite(axis).all():
        raise ValueError(f"{name} must be a non-empty one-dimensional array of finite numbers; got shape {axis.shape}.")
    return axis


def _plain(values: Reals) -> list[float | None]:
    return [None if np.isnan(x) else float(np.clip(x, -1e300, 1e300)) if np.isinf(x) else float(x) for x in values]


def _few(count: int) -> list[int]:
    return sorted({round(x) for x in np.linspace(0, count - 1, 12).tolist()})


def _moment(time: float) -> str:
    return "-" if np.isnan(time) else "before 0" if time < 0 else f"{time:.6g}"


def _verdict(diagram: PhaseDiagram, k: int) -> str:
    if (diagram.regimes[:, k] == "none").all():
        return "no solution"
    flags = {"RS unstable": diagram.stable, "entropy < 0": diagram.populated, "past capacity": diagram.satisfiable}
    failed = [name for name, fine in flags.items() if not fine[k]]
    return ", ".join(["samplable" if diagram.samplable[k] else "not samplable", *failed])
