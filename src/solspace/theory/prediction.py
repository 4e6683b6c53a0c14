"""What replica theory says about a target at a load: `predict(target, alpha)` returns a `Prediction`.

The reference system gives the order parameters at once; the curve F, its turning points and the law of the
stabilities are computed at first use, and kept.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.measure.target import as_number
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import Status
from solspace.system.checks import one_of
from solspace.system.plain import Record, Values, html_table
from solspace.theory.capacity import capacity
from solspace.theory.edge import Edge, edge, maximum_at_one
from solspace.theory.localization import Landscape, Localization, Points, Window
from solspace.theory.reference import Equilibrium, solve

REFERENCE = ("target", "alpha", "overlap", "norm", "conjugate", "norm_conjugate", "free_entropy", "replicon")


ENSEMBLES = ("random", "planted")


class Prediction(Record):
    """Replica-symmetric theory of a target at load α = m/n, as n → ∞.

    Returned by `predict`.

    Parameters
    ----------
    equilibrium : Equilibrium
        The solved saddle point.

    Attributes
    ----------
    target : Target
        The measure.
    alpha : float
        The load.
    overlap : float
        r, the overlap ⟨w, w'⟩/n of two independent samples.
    norm : float
        Q = |w|²/n, 1 for ±1 weights and on the sphere.
    conjugate, norm_conjugate : float
        r̂, and r̂_d where the prior imposes a norm or the constraints determine it (None for ±1 weights).
    free_entropy : float
        φ, the log of the partition function per weight.
    replicon : float
        Below 1 the replica-symmetric solution is stable (de Almeida–Thouless).
    status : Status
        Whether the equations were solved and the integrals are accurate.
    accuracy : float
        Largest relative error of the integrals used so far.

    Examples
    --------
    >>> p = predict(Target(), alpha=0.3)
    >>> round(p.overlap, 9), p.regime(0.5), p.samplable
    (0.51104685, 'green', True)
    """

    PLAIN: ClassVar[tuple[str, ...]] = (
        *("alpha", "overlap", "norm", "conjugate", "norm_conjugate", "free_entropy", "entropy", "replicon"),
        *("mean_stability", "stable", "satisfiable", "populated", "capacity", "samplable"),
    )

    _equilibrium: Equilibrium
    target: Target
    alpha: float
    overlap: float
    norm: float
    conjugate: float
    norm_conjugate: float | None
    free_entropy: float
    replicon: float

    def __init__(self, equilibrium: Equilibrium) -> None:
        self.__dict__.update({name: getattr(equilibrium, name) for name in REFERENCE}, _equilibrium=equilibrium)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Prediction cannot be changed; predict again for another {name}.")

    def __reduce__(self) -> tuple[object, ...]:
        return Prediction, (self._equilibrium,)

    @property
    def least_overlap(self) -> float:
        """The overlap at which the curve F starts: r; of a planted problem that of the prior alone, (E w)²."""
        return self._equilibrium.overlap

    @property
    def stable(self) -> bool:
        """Whether the replica-symmetric solution is stable: replicon < 1."""
        return self.replicon < 1

    @property
    def entropy(self) -> float:
        """Entropy -Σ p log p of the measure per weight: the log number (discrete weights) or log volume of typical weights."""
        return self._equilibrium.entropy

    @property
    def populated(self) -> bool:
        """Whether the measure has typical samples: entropy >= 0 for discrete weights; always for real ones."""
        return not self.target.prior.discrete or self.entropy >= 0

    @cached_property
    def satisfiable(self) -> bool:
        """Whether the constraints have solutions, typically: load below their capacity, whatever the potential.

        Nothing is said of this measure's own samples, which end where its `entropy` becomes negative (`populated`), nor
        of soft measures, which go on past capacity with samples that miss constraints.
        """
        return self.capacity is None or self.alpha < self.capacity

    @cached_property
    def capacity(self) -> float | None:
        """The load at which the constraints stop having solutions, None where they never do."""
        return capacity(self.target)

    def stability_density(self, s: ArrayLike) -> Any:
        """Return P(s), the density of the stabilities s = ⟨x, w⟩/√n of a typical sample.

        Parameters
        ----------
        s : array_like
            Stabilities.

        Returns
        -------
        float or ndarray
            P(s), in the shape of `s`.
        """
        return self._equilibrium.law.density(_finite("s", s))[()]

    def stability_cdf(self, s: ArrayLike) -> Any:
        """Return the fraction of stabilities below s.

        Parameters
        ----------
        s : array_like
            Stabilities.

        Returns
        -------
        float or ndarray
            Cumulative distribution, in the shape of `s`.
        """
        return self._equilibrium.law.cdf(_finite("s", s))[()]

    @property
    def stability_range(self) -> tuple[float, float]:
        """Interval that contains nearly all of P(s), as (low, high)."""
        return self._equilibrium.law.extent

    @property
    def mean_stability(self) -> float:
        """The mean of P(s)."""
        return self._equilibrium.law.mean

    @cached_property
    def _curve(self) -> Localization:
        return Localization(self._equilibrium)

    @cached_property
    def _landscape(self) -> Landscape:
        return Landscape(self._curve)

    def localization_time(self, q: ArrayLike) -> Any:
        """Return F(q), the time at which overlap q is stationary (theory notes 3.1).

        Parameters
        ----------
        q : array_like
            Overlaps in [r, Q].

        Returns
        -------
        float or ndarray
            F(q), in the shape of `q`.
        """
        return self._on_curve(q, "time", -np.inf if self._falls else np.inf)

    def instability_at(self, q: ArrayLike) -> Any:
        """Return λ(q) = α χ(q) E_q[g'²]; message passing at overlap q converges where λ < 1.

        Parameters
        ----------
        q : array_like
            Overlaps in [r, Q].

        Returns
        -------
        float or ndarray
            λ(q), in the shape of `q`.
        """
        return self._on_curve(q, "instability", np.inf if self._falls else 0.0)

    def free_entropy_at(self, q: ArrayLike, t: ArrayLike) -> Any:
        """Return φ_t(q).

        Parameters
        ----------
        q : array_like
            Overlaps in [r, Q].
        t : array_like
            Times >= 0, broadcast against `q`.

        Returns
        -------
        float or ndarray
            φ_t(q).
        """
        t = _times(t)
        top = self._landscape.top if self.target.prior.discrete else -np.inf
        return (self._on_curve(q, "free_entropy", top) + t * np.asarray(q, dtype=float) / 2)[()]

    def overlap_at(self, t: ArrayLike, start: str = "low") -> Any:
        """Return q(t), the overlap that message passing reaches at time t.

        Parameters
        ----------
        t : array_like
            Times >= 0.
        start : {"low", "high"}, default "low"
            Start from an uninformative ("low") or a fully informed ("high") state.

        Returns
        -------
        float or ndarray
            q(t), in the shape of `t`; exactly Q from above where φ_t has a maximum there.
        """
        if start not in ("low", "high"):
            raise ValueError(f"start must be 'low' or 'high'; got {start!r}.")
        times = _times(t)
        depth, left = np.full(times.shape, np.inf), np.ones(times.shape, bool)
        if start == "high" and self._landscape.falls:
            left[...] = False
        for rise in self._landscape.rises[:: 1 if start == "low" else -1]:
            here = left & (times <= rise.high) & (times >= rise.low)
            if here.any():
                depth[here] = self._landscape.roots([rise] * int(here.sum()), times[here])
                left &= ~here
        if start == "low" and self._equilibrium.origin == 0:
            depth[times == 0] = 0.0
        result, finite = np.full(times.shape, self.norm), np.isfinite(depth)
        gap, variance = self._curve.distances(depth[finite])
        result[finite] = np.where(variance < gap, self.norm - variance, self.least_overlap + gap)
        return result[()]

    def regime(self, t: ArrayLike) -> Any:
        """Return the regime of φ_t at time t.

        "green": one maximum. "yellow": two, the one at lower q is higher. "red": two, the one at higher q is higher; sampling by
        localization fails.

        Parameters
        ----------
        t : array_like
            Times >= 0.

        Returns
        -------
        str or ndarray of str
            A string for a scalar `t`, else an array in its shape.
        """
        times = _times(t)
        names = np.full(times.shape, "green", dtype="U6")
        for window in self.windows:
            inside = (times >= window.low) & (times <= window.high)
            names[inside] = np.where(times[inside] <= window.maxwell, "yellow", "red")
        if len(self.windows) > 1:  # three maxima or more: compare them at every time
            for place in np.argwhere(names != "green"):
                _, height = self._landscape.maxima(float(times[tuple(place)]))
                lower = height[0] >= height[1:].max(initial=-np.inf)
                names[tuple(place)] = "green" if len(height) < 2 else "yellow" if lower else "red"
        if not self.stable:
            names[times == 0] = "red"
        return str(names) if times.ndim == 0 else names

    @cached_property
    def samplable(self) -> bool:
        """Whether F rises all the way from r to 1: one maximum at every time, and localization samples fairly."""
        return self._landscape.monotone

    def edge(self) -> Edge:
        """Return the behaviour of φ_t as q → 1.

        Returns
        -------
        Edge
            Sign and leading form of dφ/dq, and whether there is a maximum at q = 1.
        """
        return edge(self._equilibrium)

    @property
    def windows(self) -> list[Window]:
        """Times (low, maxwell, high) between which φ_t has two maxima, and at which they are equally high."""
        return self._landscape.windows

    @property
    def telling_times(self) -> list[float]:
        """The times at which φ_t is most informative: around those at which two maxima compete, else from 0 to 4."""
        inside = [float(t) for window in self.windows for t in window if np.isfinite(t) and t > 0]
        if not inside:
            return [0.0, 0.5, 1.0, 2.0, 4.0]
        maxwell = [float(window.maxwell) for window in self.windows[:1] if 0 < window.maxwell < np.inf]
        return sorted({0.0, min(inside), *maxwell, max(inside), 1.3 * max(inside)})

    @property
    def accuracy(self) -> float:
        """The largest relative error of the integrals used so far, by halved panels and by E_q[1] = 1."""
        used = self.__dict__.get("_curve")
        return max(self._equilibrium.accuracy, 0.0 if used is None else used.accuracy)

    @property
    def status(self) -> Status:
        """Whether the equations solved so far were solved to the end, and the integrals used are accurate."""
        landscape = self.__dict__.get("_landscape")
        roots = Status.CONVERGED if landscape is None else landscape.status
        return self._equilibrium.status.then(roots).then(Status.of_error(self.accuracy))

    @cached_property
    def _falls(self) -> bool:
        return maximum_at_one(self._equilibrium)

    def _on_curve(self, q: ArrayLike, column: str, at_one: float) -> Any:
        overlaps = _finite("q", q)
        flat = overlaps.ravel()
        least = self.least_overlap
        if np.any((flat < least * (1 - 1e-12) - 1e-15) | (flat > self.norm)):
            raise ValueError(
                f"q must lie between the reference overlap r = {least:.12g} and {self.norm:.12g}, nothing below r can be "
                f"reached; got {flat[(flat < least) | (flat > self.norm)][0]!r}."
            )
        result = np.full(flat.shape, at_one, dtype=float)
        below = flat < self.norm
        if below.any():
            result[below] = getattr(self._points_at(np.maximum(flat[below], least).tobytes()), column)
        return result.reshape(overlaps.shape)[()]

    @cached_property
    def _points_at(self) -> Callable[[bytes], Points]:
        # F, λ and φ come together, and are often wanted at the same overlaps: the last ones are kept
        return lru_cache(maxsize=2)(lambda q: self._curve.at_overlap(np.frombuffer(q)))

    def plot(self, kind: str = "free entropy", ax: Any = None, **style: Any) -> Any:
        """Draw the prediction.

        Parameters
        ----------
        kind : {"free entropy", "localization", "path", "stabilities", "all"}, default "free entropy"
            φ_t(q) at several times with its maxima coloured by regime, F(q), q(t), P(s), or all four panels.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide, two columns for "all".
        **style : Any
            Properties of the lines, as in `Axes.plot`; `times=` for the curves of "free entropy".

        Returns
        -------
        matplotlib.axes.Axes or ndarray of Axes
            The axes; an array for "all".

        Examples
        --------
        >>> from matplotlib import pyplot
        >>> ax = predict(Target(), alpha=0.5).plot("stabilities", color="k")
        >>> ax.get_xlabel(), float((25.4 * ax.figure.get_figwidth()).round())
        ('stability $s$', 86.0)
        >>> pyplot.close(ax.figure)
        """
        from solspace.plots.theory import plot_prediction

        return plot_prediction(self, kind, ax, **style)

    def _values(self) -> Values:
        return {
            "target": self.target.to_dict(),
            **{name: getattr(self, name) for name in self.PLAIN},
            "windows": [[None if np.isinf(x) else x for x in window] for window in self.windows],
            "status": self.status.value,
            "accuracy": self.accuracy,
        }

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values of what is printed.

        Returns
        -------
        list of tuple of str
            Name and value.
        """
        return [
            ("overlap r", f"{self.overlap:.9g}"),
            *([("norm Q", f"{self.norm:.9g}")] if self.norm != 1 else []),
            ("conjugate r̂", f"{self.conjugate:.9g}"),
            *([("norm conjugate r̂_d", f"{self.norm_conjugate:.9g}")] if self.norm_conjugate is not None else []),
            ("free entropy φ", f"{self.free_entropy:.9g}"),
            ("entropy", f"{self.entropy:.9g}" + ("" if self.populated else "  (negative: no typical samples)")),
            (
                "capacity",
                "none"
                if self.capacity is None
                else f"{self.capacity:.7g}" + ("" if self.satisfiable else "  (passed)"),
            ),
            ("replicon", f"{self.replicon:.6g}" + ("  (stable)" if self.stable else "  (RS unstable)")),
            ("mean stability", f"{self.mean_stability:.6g}"),
        ]

    def summary(self) -> str:
        """Return the prediction in words.

        Returns
        -------
        str
            A paragraph: whether the target can be sampled, and what limits the theory.
        """
        name = str(self.target)
        words = [
            f"{name[0].upper()}{name[1:]}, at alpha = {self.alpha:g}: two independent samples overlap by "
            f"r = {self.overlap:.4g}{'' if self.norm == 1 else f', with themselves by Q = {self.norm:.4g}'}.",
            *_ends(self),
        ]
        if not self.stable:
            words.append(
                f"The replica-symmetric solution is unstable (replicon {self.replicon:.3g} > 1): an approximation only."
            )
        if self.samplable:
            words.append("φ_t(q) has a single maximum at every time: sampling by localization is predicted to be fair.")
        elif self.edge().maximum_at_one:
            words.append(f"Sampling by localization is predicted to fail: {self.edge().words}")
        else:
            times = [f"t = {max(w.low, 0):.4g} to {w.high:.4g}" for w in self.windows if w.high > 0]
            where = (
                f" two maxima compete from {', and from '.join(times)}" if times else " it is unstable at small times"
            )
            words.append(f"Sampling by localization is predicted to fail:{where}.")
        return " ".join(words if self.status.ok else [*words, doubt(self)])

    def __repr__(self) -> str:
        localization = ("localization", "green at all times: samplable" if self.samplable else "not samplable")
        return "\n".join([_heading(self), *(f"  {name:<26} {value}" for name, value in (*self.rows(), localization))])

    def _repr_html_(self) -> str:
        verdict = "samplable: φ_t has one maximum at every time" if self.samplable else "not samplable by localization"
        notes = [] if self.status.ok else [doubt(self)]
        return html_table(_heading(self), self.rows(), verdict=verdict, good=self.samplable, notes=notes)


def predict(target: Target, alpha: float, ensemble: str = "random") -> Prediction:
    """Solve the replica-symmetric saddle point of `target` at load `alpha`.

    Parameters
    ----------
    target : Target
        Measure over the weights.
    alpha : float
        Load m/n, > 0.
    ensemble : {"random", "planted"}, default "random"
        Labels without a rule, or drawn from a teacher's: the posterior of its weights, a `PlantedPrediction`.

    Returns
    -------
    Prediction
        Order parameters, entropy, stability density and the localization curve F(q). Unstable solutions, negative
        entropies and loads beyond capacity are reported by `stable`, `populated`, `satisfiable` and `summary()`.

    Raises
    ------
    ValueError
        If `alpha` is not positive or the equations have no solution there, or no labels can be drawn from a planted target.

    See Also
    --------
    thresholds : Loads at which the phases of a target end.
    phase_diagram : Regimes over times and loads.

    Examples
    --------
    >>> p = predict(Target("spherical", "uniform", margin=-2.5), alpha=278)
    >>> p.samplable, [round(t, 6) for t in p.windows[0]]
    (False, [0.020631, 0.036297, 0.047024])
    """
    load = as_number("alpha", alpha)
    if one_of(ENSEMBLES)("ensemble", ensemble) == "random":
        return Prediction(solve(target, load))
    from solspace.theory.planted import PlantedPrediction, check, uninformed

    check(target)
    if not (load > 0 and np.isfinite(load)):
        raise ValueError(f"alpha must be a positive, finite number; got {load!r}.")
    return PlantedPrediction(uninformed(target, load))


def _finite(name: str, values: ArrayLike) -> Reals:
    array = np.asarray(values, dtype=float)
    if np.isnan(array).any():
        raise ValueError(f"{name} must hold numbers; got NaN.")
    return array


def _times(t: ArrayLike) -> Reals:
    times = _finite("t", t)
    if np.any(times < 0) or np.any(np.isinf(times)):
        raise ValueError(f"t must be a finite time >= 0; got {times[(times < 0) | np.isinf(times)].ravel()[0]!r}.")
    return times


def _heading(p: Prediction) -> str:
    return f"Prediction for {p.target}, alpha = {p.alpha:g}"


def doubt(p: Prediction) -> str:
    """Return why the numbers cannot be trusted, where `status` is not ok."""
    if p.status is Status.INACCURATE:
        return f"Accuracy {p.accuracy:.1g}, {p.status}"
    return f"An equation was not solved to the end, {p.status}"


def _ends(p: Prediction) -> list[str]:
    if not p.satisfiable:
        hard = p.target.potential.hard
        rest = "the numbers continue the equations only" if hard else "samples of this soft measure miss some of them"
        return [f"The load is past capacity ({p.capacity:.4g}): no weights meet all constraints, and {rest}."]
    if not p.populated:
        still = "at every load" if p.capacity is None else f"up to capacity ({p.capacity:.4g})"
        return [
            f"The entropy of this measure is negative: its typical samples end at a smaller load, and the numbers "
            f"continue the equations only. The constraints have solutions {still}."
        ]
    return []
