"""Planted problems: a teacher drawn from the prior labels the patterns; the target is the posterior of its weights (notes 13).

The teacher is one more sample of the posterior (Nishimori): one overlap q describes both, and Q is the prior's E w². Everything
is the localization of a weight of the prior by the signal q̂ = α E_q[g²], with a law of the field that starts at overlap zero:

    ω has density 2 Z(ω, Q - q) N(ω; 0, q),   q = E[w⁰ ⟨w⟩] at signal q̂ + t,   F(q) = x(q) - α E_q[g²],

x(q) the signal at which the prior's weights have overlap q. Localization adds a signal t. Thresholds: `planted_thresholds`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.rules import around
from solspace.system.plain import Values
from solspace.theory.cavity import TAIL, CavityField
from solspace.theory.localization import Localization, Window
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
