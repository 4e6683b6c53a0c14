"""Is a sampler fair on these patterns? Plant a teacher, draw labels, sample, and compare the teacher with the samples; repeat.

With labels drawn by the likelihood, a teacher drawn from the prior is one more sample of the posterior, exchangeable with fair
samples: its rank among them is uniform whatever is measured, and its mean overlap with them is that of two samples. This needs no
theory, no mixing chain, and no assumption on the patterns.

Talts et al., "Validating Bayesian inference algorithms with simulation-based calibration" (2018).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import stdtr, stdtrit

from solspace.diagnostics.comparison import last_draws
from solspace.diagnostics.report import COARSE, Estimate, visible
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, child, generator, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.localization.localize import localize
from solspace.samplers.registry import SAMPLERS
from solspace.samples import Samples, chains_of
from solspace.system import progress as bars
from solspace.system.checks import install, instance, one_of, optional, whole
from solspace.system.plain import Values, html_table

Sampler = Callable[[Perceptron, int, np.random.SeedSequence], Any]
FALSE_ALARM = (
    0.0027  # probability with which a fair sampler is called biased: three standard errors, over all tests together
)
DENOISERS = ("amp", "ep")  # names of samplers that are `localize` with a denoiser
FEWEST = 5  # teachers that a bin of a rank histogram is to hold
SIMULATED = 20_000  # histograms of uniform ranks from which the law of χ² is known


@dataclass(frozen=True, eq=False)
class Calibration:
    """Result of `calibrate`; prints as a table with a verdict in words.

    Attributes
    ----------
    sampler, target : str
        What was tested, on which target.
    n, m : int
        Weights and patterns of a problem.
    n_problems, n_samples : int
        Problems, and samples of each.
    ranks : dict of str to ndarray
        (n_problems,) number of samples below the teacher, ties broken at random, in "overlap" (with all others), "energy",
        "projection" on a random direction, and "intercept".
    p_values : dict of str to float
        Of the χ² tests that ranks are uniform, and of the tests that the differences below vanish.
    overlap : Estimate
        Mean overlap of two samples, less that of teacher and sample.
    energy : Estimate or None
        Mean energy of a sample, less the teacher's; None where all solutions have the same.
    sample_overlap : float
        Mean overlap of two samples.
    missed : float
        Share of samples that violate a hard constraint.
    fair : bool or None
        Whether the sampler is fair; None if it cannot be decided.
    within : float
        The smallest bias of the overlaps that would have been detected with 95% probability.
    verdict : str
        The verdict in words.
    notes : tuple of str
        Remarks.
    """

    sampler: str
    target: str
    n: int
    m: int
    n_problems: int
    n_samples: int
    ranks: dict[str, Array]
    p_values: dict[str, float]
    overlap: Estimate
    energy: Estimate | None
    sample_overlap: float
    missed: float
    fair: bool | None
    within: float
    verdict: str
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table.

        Returns
        -------
        list of (str, str, str)
            Quantity, measured value, and probability of a larger deviation of a fair sampler.
        """
        found = [
            ("problems × samples", f"{self.n_problems} × {self.n_samples}", ""),
            ("overlap of two samples", f"{self.sample_overlap:.4f}", ""),
            ("less that with the teacher", str(self.overlap), f"p = {self.p_values['overlap difference']:.2g}"),
        ]
        if self.energy is not None:
            p = self.p_values["energy difference"]
            found.append(("energy of a sample less the teacher's", str(self.energy), f"p = {p:.2g}"))
        ranks = [(f"ranks of the teacher in {name}", "χ²", f"p = {self.p_values[name]:.2g}") for name in self.ranks]
        missed = [("samples that violate constraints", f"{self.missed:.2%}", "")] if self.missed else []
        return [*found, *ranks, *missed]

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw histograms of the teacher's ranks, with the band of 95% for uniform ones.

        Parameters
        ----------
        ax : sequence of matplotlib.axes.Axes, optional
            Axes to draw on, one for each entry of `ranks`; by default a new figure.
        **style : Any
            Properties of the bars, as in `Axes.bar`.

        Returns
        -------
        ndarray of matplotlib.axes.Axes
            The axes.
        """
        from solspace.plots.samples import rank_histograms

        return rank_histograms(self.positions(), self.p_values, bins_of(self.n_problems, self.n_samples), ax, **style)

    def positions(self) -> dict[str, Array]:
        """Return the ranks as numbers between 0 and 1, uniform for a fair sampler.

        Returns
        -------
        dict of str to ndarray
            (n_problems,) each.
        """
        # a rank fills its cell evenly, so that bins need not divide the number of ranks
        shares = (generator(0, i).random(self.n_problems) for i in range(len(self.ranks)))
        return {name: (rank + share) / (self.n_samples + 1) for (name, rank), share in zip(self.ranks.items(), shares)}

    def to_dict(self) -> Values:
        """Return the result as plain values.

        Returns
        -------
        dict
            Fields by name, nested ones as dictionaries.
        """
        ranks = {name: rank.tolist() for name, rank in self.ranks.items()}
        return asdict(self) | {"ranks": ranks, "notes": list(self.notes)}

    def to_arviz(self) -> Any:
        """Return the ranks for ArviZ, as numbers between 0 and 1.

        Returns
        -------
        InferenceData or DataTree
            By ArviZ 0.x or 1.x: the group "prior_sbc", which `arviz.plot_ecdf_pit` draws.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # ArviZ announces its next version, and that chains are short
            try:
                import arviz
            except ImportError:
                raise ImportError(f"to_arviz needs ArviZ: {install('arviz')}.") from None
            values = {name: position[None] for name, position in self.positions().items()}
            if arviz.__version__.startswith("0."):
                return arviz.InferenceData(prior_sbc=arviz.dict_to_dataset(values))
            return arviz.from_dict({"prior_sbc": values})

    def __str__(self) -> str:
        rows = self.rows()
        wide, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{name:<{wide}}  {value:>{middle}}  {more}".rstrip() for name, value, more in rows]
        return "\n".join([*lines, self.verdict, *self.notes])

    def _repr_html_(self) -> str:
        columns = f"{self.sampler} on {self.target}", "", "chance"
        return html_table("Calibration", self.rows(), columns, self.verdict, self.fair, self.notes)


def calibrate(
    problem: Perceptron | ArrayLike,
    target: Target | None = None,
    sampler: str | Sampler = "asl",
    n_problems: int = 50,
    n_samples: int = 8,
    rng: RNG = None,
    *,
    progress: bool | None = None,
    **options: Any,
) -> Calibration:
    """Test whether a sampler is fair, on any patterns, by planting teachers (simulation-based calibration).

    Parameters
    ----------
    problem : Perceptron or array_like
        (m, n) patterns, or a problem with such patterns, on which labels are drawn anew each time; of a random problem patterns
        too. An intercept is planted as well.
    target : Target, optional
        Prior and likelihood ("uniform", "logistic", "probit" or "flip"); by default the problem's, or signs of ±1 weights.
    sampler : str or callable, default "asl"
        Name of a fair sampler ("asl", "tau", "exact", ...), "amp" or "ep" for `localize` with that denoiser, or a function
        (problem, n_samples, seed) that returns `Samples` or weights (n_samples, n).
    n_problems : int, default 50
        Teachers.
    n_samples : int, default 8
        Samples for each; of annealed chains the last draw of each counts.
    rng : int, Generator, SeedSequence or None
        Seed. Problem j does not depend on `n_problems`.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.
    **options : Any
        Options of the sampler.

    Returns
    -------
    Calibration
        Verdict, tests and ranks.

    Raises
    ------
    ValueError
        If labels cannot be drawn from the target, a teacher has a stability of 0 where that gives no label, the sampler follows
        no law, or weights are clamped or patterns weighted.

    See Also
    --------
    diagnose : Compare samples of one problem with theory, chains or themselves.

    Examples
    --------
    >>> problem = Perceptron.random(n=10, alpha=4, target=Target(potential="logistic(1)"), rng=0)
    >>> report = calibrate(problem, sampler="exact", rng=1)
    >>> report.fair, report.verdict[:5]
    (True, 'fair:')
    >>> cold = Target(potential="logistic(4)")
    >>> def wrong(problem, n_samples, seed):
    ...     return problem.with_target(cold).enumerate().sample(n_samples, seed)
    >>> calibrate(problem, sampler=wrong, rng=1).fair
    False
    """
    whole(2)("n_problems", n_problems)
    whole(2)("n_samples", n_samples)
    optional(instance(Target))("target", target)
    plant = _planting(problem, target)
    name, draw = _drawing(sampler, options)
    seeds = seed_sequence(rng)
    measured: list[_Measured] = []
    words: list[str] = []
    with bars.progress(n_problems, "calibrating", progress) as bar:
        for j in range(n_problems):
            own = plant(child(seeds, j, 0))
            _check_ties(own)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                samples = _samples(draw(own, n_samples, child(seeds, j, 1)), own, n_samples)
            words += [str(warning.message) for warning in caught[:1]]
            measured.append(_measure(own, samples, child(seeds, j, 2)))
            bar.advance(1)
    notes = (f"{len(words)} of {n_problems} problems gave warnings, the first: {words[0]}",) if words else ()
    return _judged(measured, own, name, n_samples, notes)


def _planting(problem: Perceptron | ArrayLike, target: Target | None) -> Callable[[np.random.SeedSequence], Perceptron]:
    if not isinstance(problem, Perceptron):
        return lambda seeds: Perceptron.planted(X=problem, target=target, rng=seeds)
    if problem.clamped or problem.sample_weight is not None:
        raise ValueError("teachers are planted without clamped and sample weights: take the patterns alone.")
    given: Values = {"target": problem.target if target is None else target, "intercept": problem.intercept}
    if problem.ensemble is not None:
        given |= {"n": problem.n, "alpha": problem.alpha, "patterns": problem.ensemble}
    else:
        given["X"] = problem.patterns * problem.signs[:, None]
    return lambda seeds: Perceptron.planted(**given, rng=seeds)


def _check_ties(problem: Perceptron) -> None:
    """Raise ValueError if a label of the teacher had no probability: at a stability of 0 the measure counts both as right."""
    if np.isclose(np.exp(problem.target.log_weight(0.0)), 0.5) or problem.teacher is None:
        return
    if (problem.stabilities(problem.teacher, problem.teacher_intercept) == 0).any():
        raise ValueError(
            f"a teacher has a stability of exactly 0, where {problem.target.potential} gives no probability of its label: take "
            "patterns of real numbers, an odd number of ±1 weights, or the likelihoods logistic or probit."
        )


def _drawing(sampler: str | Sampler, options: Values) -> tuple[str, Callable[..., Any]]:
    """Return the name of a sampler and what draws from it, (problem, n_samples, seed) -> Samples or weights."""
    if callable(sampler):
        return getattr(sampler, "__name__", "own"), partial(sampler, **options)
    one_of([*DENOISERS, *(own.name for own in SAMPLERS.values() if own.fair)])("sampler", sampler)
    if sampler in DENOISERS:
        options, sampler, name = {"denoiser": sampler, **options}, "asl", f"asl by {sampler}"
        return name, partial(_checked, sampler, localize, options)
    return sampler, partial(_checked, sampler, SAMPLERS[sampler].draw, options)


def _checked(
    name: str, draw: Callable[..., Samples], options: Values, problem: Perceptron, n_samples: int, seed: Any
) -> Samples:
    SAMPLERS[name].check(problem.n, problem.target)
    return draw(problem, n_samples, rng=seed, progress=False, **options)


def _samples(drawn: Any, problem: Perceptron, n_samples: int) -> Samples:
    if not isinstance(drawn, Samples):
        drawn = Samples.of(problem, np.asarray(drawn))
    if drawn.info.chains is not None:
        drawn = drawn[last_draws(np.arange(len(drawn)), chains_of(drawn))]
    if len(drawn) != n_samples:
        raise ValueError(f"the sampler must return {n_samples} samples of each problem; got {len(drawn)}.")
    return drawn


@dataclass(frozen=True)
class _Measured:
    """Of one problem: overlaps, energies and ranks of its teacher."""

    pairs: float  # mean overlap of two samples
    teacher: float  # of teacher and sample
    energy: float  # mean of the samples less the teacher's, NaN where there is none
    square: float  # mean square of a weight
    missed: float
    ranks: dict[str, int]


def _measure(problem: Perceptron, samples: Samples, seeds: np.random.SeedSequence) -> _Measured:
    assert problem.teacher is not None
    random, k, target = generator(seeds), len(samples), problem.target
    weights = np.concatenate([problem.teacher[None], samples.weights]).astype(float)
    overlaps = weights @ weights.T / problem.n
    others = (overlaps.sum(axis=1) - np.diag(overlaps)) / k
    values = {"overlap": others, "projection": weights @ random.standard_normal(problem.n)}
    own = problem.stabilities(problem.teacher, problem.teacher_intercept)
    energies = -problem.log_weights(np.concatenate([own[None], samples.stabilities]))
    if not target.potential.athermal:
        values["energy"] = energies
    if samples.intercepts is not None:
        values["intercept"] = np.append(float(problem.teacher_intercept or 0.0), samples.intercepts)
    missed = target.violated(samples.stabilities).any(axis=1).mean() if target.potential.hard else 0.0
    inner = overlaps[1:, 1:]
    return _Measured(
        pairs=float((inner.sum() - np.trace(inner)) / (k * (k - 1))),
        teacher=float(overlaps[0, 1:].mean()),
        energy=float(energies[1:].mean() - energies[0]) if "energy" in values else np.nan,
        square=float(np.diag(overlaps).mean()),
        missed=float(missed),
        ranks={name: _rank(value, random) for name, value in values.items()},
    )


def _rank(values: Array, random: np.random.Generator) -> int:
    """Return how many of `values` are below the first, ties broken at random."""
    below, ties = int((values[1:] < values[0]).sum()), int((values[1:] == values[0]).sum())
    return below + int(random.integers(0, ties + 1))


def bins_of(n_problems: int, n_samples: int) -> int:
    """Return the number of bins of a rank histogram.

    >>> bins_of(50, 8), bins_of(20, 8), bins_of(500, 8)
    (9, 4, 9)
    """
    return int(np.clip(n_problems // FEWEST, 2, n_samples + 1))


def uniformity(positions: Array, bins: int) -> float:
    """Return the probability that uniform `positions` in [0, 1] give a larger χ² than these."""

    def distance(counts: Array) -> Array:
        return np.asarray(((counts - len(positions) / bins) ** 2).sum(axis=-1))

    counts = np.bincount((positions * bins).astype(int), minlength=bins)
    # with few teachers the law of χ² is not yet the one of its name
    chance = generator(0).multinomial(len(positions), np.full(bins, 1 / bins), SIMULATED)
    return float((1 + (distance(chance) >= distance(counts) - 1e-9).sum()) / (1 + SIMULATED))


def _judged(
    measured: list[_Measured], problem: Perceptron, name: str, n_samples: int, notes: tuple[str, ...]
) -> Calibration:
    count = len(measured)
    ranks = {key: np.array([one.ranks[key] for one in measured]) for key in measured[0].ranks}
    overlap = _difference([one.pairs - one.teacher for one in measured])
    energies = np.array([one.energy for one in measured])
    energy = _difference(energies) if np.isfinite(energies).all() else None
    empty = Calibration(
        name, str(problem.target), problem.n, problem.m, count, n_samples, ranks, {}, overlap, energy,
        float(np.mean([one.pairs for one in measured])), float(np.mean([one.missed for one in measured])), None, 0.0, "",
    )  # fmt: skip
    bins = bins_of(count, n_samples)
    p_values = {key: uniformity(position, bins) for key, position in empty.positions().items()}
    differences = {"overlap difference": overlap} | ({} if energy is None else {"energy difference": energy})
    p_values |= {key: 2 * float(stdtr(count - 1, -abs(own.sigmas))) for key, own in differences.items()}
    level = FALSE_ALARM / len(p_values)
    within = visible(overlap.df, float(stdtrit(count - 1, 1 - level / 2))) * overlap.error
    failed = {key: p for key, p in p_values.items() if p < level}
    size = float(np.mean([one.square for one in measured]))
    fair, verdict = _verdict(empty, failed, within, size)
    return Calibration(**{**vars(empty), "p_values": p_values, "fair": fair, "within": within, "verdict": verdict,
                          "notes": notes})  # fmt: skip


def _difference(values: ArrayLike) -> Estimate:
    own = np.asarray(values, dtype=float)
    return Estimate(float(own.mean()), float(own.std(ddof=1) / np.sqrt(len(own))), 0.0, len(own) - 1)


def _verdict(found: Calibration, failed: dict[str, float], within: float, size: float) -> tuple[bool | None, str]:
    seen = f"a bias of the overlaps of {within:.2g} would have been seen with 95% probability"
    if found.missed:
        return False, f"biased: {found.missed:.2%} of the samples violate constraints, which the teachers meet."
    if failed:
        kinds = {"overlap difference": "overlaps", "energy difference": "energies"}
        what = ", ".join(kinds.get(key, f"ranks in {key}") + f" (p = {p:.1g})" for key, p in failed.items())
        more = "more" if found.overlap.value > 0 else "less"
        by = f"{abs(found.overlap.value):.4f} ± {found.overlap.error:.4f}"
        return (
            False,
            f"biased: the teacher stands out in {what}; two samples overlap {more} than teacher and sample, by {by}.",
        )
    if within > COARSE * size:
        return None, f"cannot tell: nothing stands out, but only {seen}; take more n_problems."
    return True, f"fair: the teacher is one of the samples by all tests; {seen}."
