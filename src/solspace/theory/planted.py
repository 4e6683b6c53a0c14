"""Planted problems: a teacher drawn from the prior labels the patterns; the target is the posterior of its weights (notes 13).

The teacher is one more sample of the posterior (Nishimori): one overlap q describes both, and Q is the prior's E w². Everything
is the localization of a weight of the prior by the signal q̂ = α E_q[g²], with a law of the field that starts at overlap zero:

    ω has density 2 Z(ω, Q - q) N(ω; 0, q),   q = E[w⁰ ⟨w⟩] at signal q̂ + t,   F(q) = x(q) - α E_q[g²],

x(q) the signal at which the prior's weights have overlap q. Localization adds a signal t. As functions of q neither x nor E_q[g²]
depends on the load: α(q) = x(q)/E_q[g²] reads the equation at t = 0 backwards, and thresholds are where it turns.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import root_between
from solspace.numerics.rules import around
from solspace.system.plain import Record, Values, html_table
from solspace.theory.cavity import TAIL, CavityField
from solspace.theory.edge import maximum_at_one
from solspace.theory.localization import (
    DENSE,
    EDGES,
    INTERPOLATION,
    NODES,
    Localization,
    Window,
    chebyshev_points,
    least_depth,
)
from solspace.theory.prediction import Prediction, doubt
from solspace.theory.reference import Equilibrium
from solspace.theory.weights import free_weights, weights_of

SETTLED = 1e-13  # change of the overlap, relative to Q, at which state evolution ends
STEPS = 20_000


def check(target: Target) -> None:
    """Raise ValueError unless labels can be drawn from the target's potential."""
    potential = target.potential
    if not potential.likelihood or target.margin or (target.temperature != 1 and not potential.athermal):
        raise ValueError(
            "the planted ensemble needs a likelihood (uniform, logistic, probit or flip) at temperature 1 and margin 0; "
            f"got {target}."
        )


def uninformed(target: Target, alpha: float) -> Equilibrium:
    """Return the weights of the prior at load `alpha`, before any label is seen: where the curve F of a planted problem starts.

    >>> state = uninformed(Target(potential="uniform"), 1.0)
    >>> state.overlap, round(-state.origin, 12) == round(2 / np.pi, 12)
    (0.0, True)
    """
    zero, free = np.zeros(1), free_weights(target.prior)
    weights = weights_of(target.prior).reference(zero) if free is None else free.reference(zero, zero)
    overlap, variance, susceptibility, entropy, log_prior = (
        float(np.ravel(column)[0])
        for column in (weights.overlap, weights.variance, weights.susceptibility, weights.entropy, weights.log_prior)
    )
    norm = 1.0 if free is None else overlap + variance
    found = CavityField(target, 0.0, norm).averages([overlap], [variance])
    g2, dg2 = float(found.g2[0]), float(found.dg2[0])
    return Equilibrium(
        target=target,
        alpha=alpha,
        conjugate=0.0,
        overlap=overlap,
        variance=variance,
        norm_conjugate=None if weights.norm_conjugate is None else float(weights.norm_conjugate[0]),
        free_entropy=entropy + alpha * float(found.log_z[0]),
        replicon=alpha * dg2 * susceptibility,
        norm=norm,
        log_prior=log_prior,
        origin=-alpha * g2,
        start=0.0,
    )


class PlantedPrediction(Prediction):
    """Theory of the posterior of a teacher's weights at load α = m/n, as n → ∞.

    Returned by ``predict(target, alpha, ensemble="planted")``. The methods of `Prediction` that take a time t are those of
    localization: of a teacher seen with a signal of strength t beside the labels.

    Parameters
    ----------
    equilibrium : Equilibrium
        The prior's weights at this load.

    Attributes
    ----------
    target : Target
        The posterior.
    alpha : float
        The load.
    overlap : float
        q = E w⁰ ⟨w⟩, the overlap of a sample of the posterior with the teacher, and of two samples.
    norm : float
        Q = E w² under the prior.
    conjugate : float
        q̂, the signal that the labels give about a weight; infinite where they determine the teacher.
    norm_conjugate : None
        There is none: Q is that of the prior.
    free_entropy : float
        log Z per weight of the posterior, with P(y|s) as likelihood; levels count as in `priors.Levels`.
    replicon : float
        Growth rate of an error of message passing at this overlap.

    Examples
    --------
    >>> from solspace.theory.prediction import predict
    >>> p = predict(Target(potential="uniform"), 1.0, ensemble="planted")
    >>> round(p.overlap, 7), round(p.free_entropy, 7), round(p.gibbs_error, 4)
    (0.5607147, 0.1061083, 0.3105)
    """

    PLAIN = (
        *("alpha", "overlap", "norm", "conjugate", "free_entropy", "entropy", "gibbs_error", "bayes_error"),
        *("posterior_mean_error", "message_passing_overlap", "hard", "mean_stability", "samplable"),
    )

    def __init__(self, equilibrium: Equilibrium) -> None:
        self.__dict__.update(_equilibrium=equilibrium, target=equilibrium.target, alpha=equilibrium.alpha)
        self.__dict__.update(norm=equilibrium.norm, norm_conjugate=None)
        depths, heights = self._landscape.maxima(0.0)
        best = int(np.argmax(heights))
        values = {"overlap": self.norm, "conjugate": np.inf, "replicon": 0.0}
        if np.isfinite(depths[best]):
            gap, variance = self._curve.distances(depths[best : best + 1])
            overlap = self.norm - variance if variance[0] < gap[0] else equilibrium.overlap + gap
            instability = self._curve.at(gap, variance).instability
            values = dict(zip(values, (float(overlap[0]), self._signal(float(variance[0])), float(instability[0]))))
        self.__dict__.update(values, free_entropy=float(heights[best]))

    def __reduce__(self) -> tuple[object, ...]:
        return PlantedPrediction, (self._equilibrium,)

    @property
    def entropy(self) -> float:
        """Entropy of the posterior per weight: the log number (discrete weights) or log volume of typical weights."""
        return self.free_entropy - self.alpha * self._equilibrium.law.log_weight - self._equilibrium.log_prior

    @property
    def populated(self) -> bool:
        """True: the teacher is a typical sample."""
        return True

    @cached_property
    def capacity(self) -> float | None:
        """None: the teacher agrees with its labels at every load."""
        return None

    @property
    def gibbs_error(self) -> float:
        """Probability that a sample of the posterior and the teacher differ in the sign of a new stability: arccos(q/Q)/π."""
        return float(np.arccos(np.clip(self.overlap / self.norm, -1.0, 1.0)) / np.pi)

    @property
    def posterior_mean_error(self) -> float:
        """The same of the mean of the posterior in place of a sample: arccos(√(q/Q))/π."""
        return float(np.arccos(np.sqrt(np.clip(self.overlap / self.norm, 0.0, 1.0))) / np.pi)

    @cached_property
    def bayes_error(self) -> float:
        """Smallest probability of a wrong prediction of a new label, noise of the label included: E min(Z(ω), Z(-ω))."""
        spread, variance = np.sqrt(self.overlap), self.norm - self.overlap
        reach, fine = np.array([TAIL * spread]), np.array([2 * np.sqrt(max(variance, 1e-12 * self.norm))])
        omega, step = (x[0] for x in around([0.0], -reach, reach, fine, reach / TAIL, 0.8))
        weight = step * np.exp(-((omega / spread) ** 2) / 2) / (np.sqrt(2 * np.pi) * spread)
        law = self.target.log_weight if variance == 0 else lambda field: self.target.channel(field, variance)[0]
        return float(weight @ np.exp(np.minimum(law(omega), law(-omega))))

    @cached_property
    def message_passing_overlap(self) -> float:
        """The overlap that AMP reaches from no knowledge: smaller than `overlap` where the problem is hard."""
        return float(self.overlap_at(0.0))

    @property
    def hard(self) -> bool:
        """Whether AMP stops at a smaller overlap than that of the posterior: the labels tell more than it finds."""
        return self.message_passing_overlap < self.overlap - 1e-9 * self.norm

    @property
    def windows(self) -> list[Window]:
        """Times (low, maxwell, high), high > 0, between which φ_t has two maxima, and at which they are equally high."""
        return [window for window in super().windows if window.high > 0]

    @cached_property
    def samplable(self) -> bool:
        """Whether φ_t has one maximum at every time t >= 0, so that localization samples the posterior fairly."""
        return not self.windows

    def state_evolution(self) -> Reals:
        """Return the overlap of AMP with the teacher at every iteration, from no knowledge on.

        Returns
        -------
        ndarray
            (k,) overlaps q: the first is (E w)², the last the one at which AMP stays.
        """
        variance = self._equilibrium.variance
        found = [self.least_overlap]
        while found[-1] < self.norm and len(found) < STEPS:
            new = _answer(self._curve, self._signal(variance))
            done, variance = abs(new - variance) <= SETTLED * self.norm, new
            found.append(self.norm - variance if variance > SETTLED * self.norm else self.norm)
            if done:
                break
        return np.array(found)

    def _signal(self, variance: float) -> float:
        # q̂ = α E_q[g²], of which α E_r[g²] is -F(r)
        _, increment, _ = self._curve.averages(np.array([self._equilibrium.variance - variance]), np.array([variance]))
        return float(self.alpha * increment[0] - self._equilibrium.origin)

    def _values(self) -> Values:
        # JSON has no infinity
        return super()._values() | ({"conjugate": None} if np.isinf(self.conjugate) else {})

    def rows(self) -> list[tuple[str, str]]:
        """Return names and values of what is printed.

        Returns
        -------
        list of tuple of str
            Name and value.
        """
        reached = f"{self.message_passing_overlap:.9g}" + (
            "  (hard: AMP stops short of the posterior)" if self.hard else ""
        )
        return [
            ("overlap with the teacher q", f"{self.overlap:.9g}"),
            *([("norm Q", f"{self.norm:.9g}")] if self.norm != 1 else []),
            ("overlap that AMP reaches", reached),
            ("signal q̂", f"{self.conjugate:.9g}"),
            ("free entropy φ", f"{self.free_entropy:.9g}"),
            ("entropy", f"{self.entropy:.9g}"),
            ("Gibbs error", f"{self.gibbs_error:.6g}"),
            ("error of posterior mean", f"{self.posterior_mean_error:.6g}"),
            ("Bayes error on labels", f"{self.bayes_error:.6g}"),
        ]

    def summary(self) -> str:
        """Return the prediction in words.

        Returns
        -------
        str
            A paragraph: what the labels tell of the teacher, whether AMP finds it, and whether localization samples it.
        """
        share = f"q = {self.overlap:.4g}" + ("" if self.norm == 1 else f" of Q = {self.norm:.4g}")
        words = [
            f"Posterior of a teacher, {self.target}, at alpha = {self.alpha:g}: samples overlap with it by {share}."
        ]
        if self.overlap == self.norm:
            words.append("The labels determine the teacher.")
        if self.hard:
            words.append(
                f"This is the hard region: AMP without knowledge of the teacher stops at the overlap "
                f"{self.message_passing_overlap:.4g} and describes other weights than those of the posterior, and local "
                "algorithms are not expected to find these. A larger load, or part of the teacher's weights, removes it."
            )
        elif (informed := float(self.overlap_at(0.0, start="high"))) > self.overlap + 1e-9 * self.norm:
            words.append(
                f"There is a lower maximum of φ(q) around the teacher, at q = {informed:.4g}: it takes over at a larger load."
            )
        if self.samplable:
            words.append("φ_t(q) has a single maximum at every time: sampling by localization is predicted to be fair.")
        else:
            times = [f"t = {max(w.low, 0):.4g} to {w.high:.4g}" for w in self.windows]
            compete = f"two maxima compete from {', and from '.join(times)}"
            words.append(f"Sampling by localization is predicted to fail: {compete}.")
        return " ".join(words if self.status.ok else [*words, doubt(self)])


def _answer(curve: Localization, signal: float) -> float:
    # Q - q of the prior's weights at this signal
    if hasattr(curve.locate, "averages"):
        return float(curve.locate.averages([signal])[0][0])
    return float(1 / (1 / curve.equilibrium.variance + signal))  # the sphere


@dataclass(frozen=True)
class PlantedThresholds(Record):
    """The loads at which a planted problem changes; None where there is no such load.

    Attributes
    ----------
    target : Target
        The posterior.
    information : float or None
        From here on the posterior is the branch around the teacher; AMP does not find it yet.
    spinodal : float or None
        From here on AMP finds it from no knowledge: between the two loads the problem is hard.
    localization : float or None
        From here on, and below `spinodal`, localization fails to sample the posterior, since φ_t has two maxima at some t > 0.
        It is 0 where the likelihood jumps and weights are discrete: φ_t then has a maximum at q = Q at every load.
    cusp_time : float or None
        t at which the second maximum is born at the load `localization`.

    Examples
    --------
    >>> found = thresholds(Target(potential="uniform"))
    >>> round(found.information, 5), round(found.spinodal, 4), found.localization
    (1.24468, 1.4926, 0.0)
    """

    target: Target
    information: float | None
    spinodal: float | None
    localization: float | None
    cusp_time: float | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the thresholds as rows of a table.

        Returns
        -------
        list of tuple of str
            Name, load, and explanation.
        """
        rows = [
            ("information", self.information, "the teacher's branch takes over"),
            ("spinodal", self.spinodal, "AMP finds it"),
            ("localization", self.localization, "fails from here to the spinodal"),
        ]
        return [(name, f"{load:.9g}", why) if load is not None else (name, "none", "") for name, load, why in rows]

    def __repr__(self) -> str:
        lines = [f"  {name:<15} {load} {f'({why})' if why else ''}".rstrip() for name, load, why in self.rows()]
        return "\n".join([f"Thresholds (loads alpha) of a planted problem, {self.target}:", *lines])

    def _repr_html_(self) -> str:
        return html_table(f"Thresholds of a planted problem, {self.target}", self.rows(), ("threshold", "load α", ""))


def thresholds(target: Target) -> PlantedThresholds:
    """Return the loads at which a planted problem changes."""
    check(target)
    turns = _Turns(target)
    if turns.first is None:
        return PlantedThresholds(target, None, None, None)
    return PlantedThresholds(target, turns.information, turns.load(turns.first), *turns.localization)


class _Turns:
    """The load α(q) = x(q)/E_q[g²] at which overlap q is stationary, where it turns, along the depth of q."""

    def __init__(self, target: Target) -> None:
        self.curve = Localization(uninformed(target, 1.0))
        self.falls = maximum_at_one(self.curve.equilibrium)
        least = least_depth(self.curve.equilibrium)
        rows: list[Reals] = []
        for start, stop in pairwise(EDGES):
            at = start + (stop - start) * chebyshev_points(NODES)
            rows.append(np.array(self._growth(at)))
            end = rows[-1][0, -3:]
            rising, still = bool(end[0] < end[1] < end[2]), abs(end[2] - end[0]) < 1e-3
            if stop >= least and (
                rising and end[2] > 1 if self.falls else not rising and end[2] < (0.9 if still else 0.5)
            ):
                break
        edges = EDGES[: len(rows) + 1]
        self.depth = (edges[:-1, None] + np.diff(edges)[:, None] * np.arange(DENSE) / DENSE).ravel()
        product, self.growth = np.concatenate([row @ INTERPOLATION.T for row in rows], axis=1)
        crossing = np.flatnonzero((product[:-1] < 1) != (product[1:] < 1)).tolist()
        turning = [self._turn(k) for k in crossing]
        self.first = turning[0] if turning else None
        self.second = turning[1] if len(turning) > 1 else None

    def parts(self, depth: Reals) -> tuple[Reals, ...]:
        """Return x, E_q[g²], χ E_q[g'²], and what weights and constraints give to φ, at each depth."""
        gap, variance = self.curve.distances(depth)
        log_z, increment, dg2 = self.curve.averages(gap, variance)
        weights = self.curve.locate(gap, variance)
        g2 = increment - self.curve.equilibrium.origin
        return weights.excess, g2, weights.susceptibility * dg2, weights.entropy, log_z

    def _growth(self, depth: Reals) -> tuple[Reals, Reals]:
        # of an error at the load at which q is stationary, λ = α(q) χ E_q[g'²]: above 1 where α(q) falls; and λ/α
        signal, g2, growth, *_ = self.parts(depth)
        return signal / g2 * growth, growth

    def _turn(self, k: int) -> float:
        return root_between(lambda y: float(self._growth(np.array([y]))[0][0]) - 1, self.depth[k], self.depth[k + 1])

    def load(self, depth: float) -> float:
        """Return the load at which the overlap at this depth is stationary."""
        signal, g2, *_ = self.parts(np.array([depth]))
        return float(signal[0] / g2[0])

    def height(self, depth: float, load: float) -> float:
        """Return φ at this depth."""
        *_, entropy, log_z = self.parts(np.array([depth]))
        return float(entropy[0] + load * log_z[0])

    @property
    def information(self) -> float:
        """The load at which the branch around the teacher is as high as the one from no knowledge."""
        assert self.first is not None
        first, second, state = self.first, self.second, self.curve.equilibrium

        def depth_at(load: float, low: float, high: float) -> float:
            return root_between(lambda y: self.load(y) - load, low, high)

        def advantage(load: float) -> float:
            low = self.height(depth_at(load, 1e-9, first), load)
            if second is None:
                return load * state.law.log_weight + state.log_prior - low
            return self.height(depth_at(load, second, last), load) - low

        top = self.load(first) * (1 - 1e-9)
        bottom, last = 1e-3 * top, np.inf
        if second is not None:
            bottom, last = self.load(second) * (1 + 1e-9), second + 1
            while self.load(last) < top:
                last += 1
        return root_between(advantage, bottom, top)

    @property
    def localization(self) -> tuple[float, float | None]:
        """The smallest load at which λ exceeds 1 at an overlap that a time t >= 0 makes stationary; and t."""
        if self.falls:
            return 0.0, None
        inside = np.flatnonzero((self.depth >= (self.first or 0)) & (self.depth <= (self.second or np.inf)))
        best = self.depth[inside[np.argmax(self.growth[inside])]]
        step = float(self.depth[1] - self.depth[0]) * 8
        fine = np.clip(best + step * (2 * chebyshev_points(10) - 1), self.first, self.second)
        fit = np.polynomial.Polynomial.fit(fine, self._growth(fine)[1], 9)
        at = np.linspace(fine[0], fine[-1], 4001)
        top = at[np.argmax(fit(at))]
        load = float(1 / fit(top))
        signal, g2, *_ = self.parts(np.array([top]))
        return load, float(signal[0] - load * g2[0])
