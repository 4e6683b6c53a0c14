"""What a sampler returns: weights, their stabilities, whether each solves its problem, and how the run went."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike

from solspace.info import AnnealingInfo, Info, from_dict, joined, taken
from solspace.measure import Target
from solspace.measure.potentials import scaled_log_weight
from solspace.numerics.arrays import Array
from solspace.numerics.series import pair_products
from solspace.problem import Perceptron
from solspace.system.checks import install, instance, optional, shown, whole
from solspace.system.files import Damaged, read_npz, replacing
from solspace.system.plain import html_table

if TYPE_CHECKING:
    from solspace.geometry.paths import Displacement
    from solspace.theory.prediction import Prediction

FORMAT = 2  # version of the files
ARRAYS = ("weights", "stabilities", "solved")


class Samples:
    """Weights drawn by a sampler, with their stabilities and a record of the run.

    Indexing along the samples (integer, slice, mask or integers) returns `Samples`; `+` concatenates samples of one
    problem. `np.asarray(samples)` gives the weights.

    Parameters
    ----------
    weights, stabilities : ndarray
        (k, n) and (k, m): w and ⟨x, w⟩/√n.
    solved : ndarray of bool
        (k,), whether each sample meets all constraints.
    target : Target
        The measure sampled.
    info : mapping, optional
        Record of the run: a `LocalizationInfo`, `AnnealingInfo`, `SolvingInfo` or plain values.
    digest : str, optional
        `Perceptron.digest` of the problem.
    intercepts : ndarray, optional
        (k,), of a problem with an intercept.

    Attributes
    ----------
    n, m : int
        Numbers of weights and of constraints.

    Examples
    --------
    >>> problem = Perceptron.random(n=7, alpha=0.4, rng=0)
    >>> samples = Samples.of(problem, problem.enumerate().sample(4, rng=1), {"sampler": "exact"})
    >>> samples[-1], samples[samples.solved].n, samples.overlaps().shape
    (Samples(k=1, n=7, m=3, solved 1/1, exact), 7, (6,))
    >>> samples[:2] + samples[2:]
    Samples(k=4, n=7, m=3, solved 4/4, exact)
    """

    _problem: Perceptron | None = None  # that was sampled, where known; neither saved nor pickled

    def __init__(
        self,
        weights: Array,
        stabilities: Array,
        solved: Array,
        target: Target,
        info: Mapping[str, Any] | None = None,
        digest: str | None = None,
        intercepts: Array | None = None,
    ) -> None:
        self.weights, self.stabilities, self.solved = weights, stabilities, np.asarray(solved, dtype=bool)
        self.n, self.m = weights.shape[1], stabilities.shape[1]
        self.target, self.digest, self.intercepts = target, digest, intercepts
        self.info = info if isinstance(info, Info) else from_dict(info, "plain") if info else Info()

    @classmethod
    def of(
        cls,
        problem: Perceptron,
        weights: Array,
        info: Mapping[str, Any] | None = None,
        stabilities: Array | None = None,
        named: bool = True,
        intercepts: Array | None = None,
    ) -> Samples:
        """Return samples with stabilities and `solved` computed from the patterns.

        Parameters
        ----------
        problem : Perceptron
            The problem.
        weights : ndarray
            (k, n).
        info : mapping, optional
            Record of the run.
        stabilities : ndarray, optional
            (k, m) if already known.
        named : bool, default True
            Whether to store the digest of the problem.
        intercepts : ndarray, optional
            (k,), of a problem with an intercept.

        Returns
        -------
        Samples
            The samples.
        """
        stabilities = problem.stabilities(weights, intercepts) if stabilities is None else stabilities
        solved = ~problem.target.violated(stabilities).any(axis=1) & problem.supports(weights)
        samples = cls(weights, stabilities, solved, problem.target, info, problem.digest if named else None, intercepts)
        samples._problem = problem
        return samples

    def __len__(self) -> int:
        return len(self.weights)

    def __getitem__(self, which: object) -> Samples:
        rows = _rows(which, len(self))
        info = self.info if np.array_equal(rows, np.arange(len(self))) else taken(self.info, rows)
        own = self.weights[rows], self.stabilities[rows], self.solved[rows]
        shifts = None if self.intercepts is None else self.intercepts[rows]
        picked = Samples(*own, self.target, info, self.digest, shifts)
        picked._problem = self._problem
        return picked

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_problem"}

    def __iter__(self) -> Iterator[Samples]:
        return (self[i] for i in range(len(self)))

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.array(self.weights, dtype=dtype) if copy else np.asarray(self.weights, dtype=dtype)

    def __add__(self, other: Samples) -> Samples:
        if not isinstance(other, Samples):
            return NotImplemented
        return Samples.concatenate([self, other])

    def differs(self, other: Samples) -> str:
        """Return why two sets of samples do not belong to one problem and target.

        Parameters
        ----------
        other : Samples
            Samples to compare with.

        Returns
        -------
        str
            The reason; empty if none is known.
        """
        if (self.n, self.m) != (other.n, other.m):
            return f"one has n = {self.n}, m = {self.m}, the other n = {other.n}, m = {other.m}"
        if self.target != other.target:
            return f"one is under {self.target}, the other under {other.target}"
        known = self.digest is not None and other.digest is not None
        return "their patterns are others" if known and self.digest != other.digest else ""

    @classmethod
    def concatenate(cls, parts: Iterable[Samples]) -> Samples:
        """Concatenate samples of several runs on one problem and target.

        Runs of one sampler with equal settings keep their record; their chains are then judged together.

        Parameters
        ----------
        parts : iterable of Samples
            At least one.

        Returns
        -------
        Samples
            All samples, in order.

        Raises
        ------
        ValueError
            If they belong to different problems or targets.

        Examples
        --------
        >>> import solspace as ss
        >>> problem = ss.Perceptron.random(n=101, alpha=0.3, rng=0)
        >>> runs = [ss.anneal(problem, n_chains=2, n_sweeps=20, rng=seed) for seed in range(3)]
        >>> ss.Samples.concatenate(runs).info.n_chains
        6
        """
        runs: list[Samples] = [instance(Samples)("an entry of parts", part) for part in parts]
        if not runs:
            raise ValueError("parts must hold at least one Samples; got none.")
        if why := next(filter(None, map(runs[0].differs, runs)), ""):
            raise ValueError(f"samples of one problem and target can be put together, but {why}.")
        weights, stabilities, solved = (np.concatenate([getattr(one, name) for one in runs]) for name in ARRAYS)
        info = joined([one.info for one in runs], [len(one) for one in runs]) if len(runs) > 1 else runs[0].info
        digest = next(filter(None, (one.digest for one in runs)), None)
        intercepts = [one.intercepts for one in runs if one.intercepts is not None]
        if intercepts and len(intercepts) < len(runs):
            raise ValueError("samples with an intercept and samples without one cannot be put together.")
        shifts = np.concatenate(intercepts) if intercepts else None
        return cls(weights, stabilities, solved, runs[0].target, info, digest, shifts)

    def overlaps(self) -> Array:
        """Return the overlaps ⟨w_a, w_b⟩/n of all pairs a < b.

        Returns
        -------
        ndarray
            (k(k-1)/2,).
        """
        return pair_products(self.weights) / self.n

    def displacement(self, prediction: Prediction | bool | None = None) -> Displacement:
        """Return how far annealed chains travel: the overlap of their draws with their first one, against sweeps.

        Parameters
        ----------
        prediction : Prediction or False, optional
            Theory, whose overlap r of independent samples is the plateau of chains that travel freely; by default that of random
            patterns at this load, where there is a theory. False for none.

        Returns
        -------
        Displacement
            `sweeps` (draws,), `overlaps` (chains, draws), `plateau`.

        Raises
        ------
        ValueError
            If the samples are not whole chains with several draws, as of `anneal(problem, n_extra=100)`.

        Examples
        --------
        >>> import solspace as ss
        >>> problem = ss.Perceptron.random(n=101, alpha=0.3, rng=0)
        >>> moved = ss.anneal(problem, 4, n_extra=20, rng=1).displacement()
        >>> moved.overlaps.shape, int(moved.sweeps[-1])
        ((4, 2), 10)
        """
        from solspace.geometry.paths import displacement

        return displacement(self, prediction)

    def plot(
        self,
        kind: str = "stabilities",
        ax: Any = None,
        prediction: Prediction | None = None,
        reference: Samples | None = None,
        **style: Any,
    ) -> Any:
        """Draw the samples.

        Parameters
        ----------
        kind : {"stabilities", "overlaps", "path", "energy", "all"}, default "stabilities"
            Histogram of stabilities, histogram of overlaps of pairs (of chains: at their last draws), |m|²/n along a
            localization, energy and acceptance of annealed chains, or all that apply.
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide, two columns for "all".
        prediction : Prediction, optional
            Theory to draw beside: P(s), r, q(t).
        reference : Samples, optional
            Other samples of the problem, whose overlaps are drawn as an outline.
        **style : Any
            Properties of the histogram or the lines, as in Matplotlib.

        Returns
        -------
        matplotlib.axes.Axes or ndarray of Axes
            The axes; an array for "all".

        Examples
        --------
        >>> problem = Perceptron.random(n=7, alpha=0.4, rng=0)
        >>> Samples.of(problem, problem.enumerate().sample(40, rng=1)).plot("overlaps", alpha=0.3).get_xlabel()
        'overlap of two samples'
        """
        from solspace.plots.samples import plot_samples

        return plot_samples(self, kind, ax, prediction, reference, **style)

    def __repr__(self) -> str:
        solved = f"solved {int(self.solved.sum())}/{len(self)}"
        name = f", {self.info.sampler}" if self.info.sampler else ""
        return f"Samples(k={len(self)}, n={self.n}, m={self.m}, {solved}{name})"

    def _repr_html_(self) -> str:
        chains = self.info.chains
        count = f"{len(self):,}" if chains is None else f"{len(self):,} draws of {len(np.unique(chains)):,} chains"
        wall = self.info.wall_time
        rows = [
            ("samples", count),
            ("solved", f"{int(self.solved.sum()):,} of {len(self):,}"),
            ("weights n, constraints m", f"{self.n:,}, {self.m:,} (α = {self.m / self.n:.4g})"),
            ("sampler", self.info.sampler),
            ("seconds", "" if wall is None else f"{wall:.3g}"),
            ("target", str(self.target)),
        ]
        return html_table("Samples", [row for row in rows if row[1]])

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the samples to one compressed `.npz` file, atomically.

        Parameters
        ----------
        path : str or path-like
            The file.
        """
        record, kind = self.info.to_dict(), self.info.kind
        arrays = {f"info/{name}": value for name, value in record.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in record.items() if f"info/{name}" not in arrays}
        meta = {"format": FORMAT, "target": self.target.to_dict(), "info": plain, "kind": kind, "patterns": self.digest}
        if self.intercepts is not None:
            arrays["intercepts"] = self.intercepts
        arrays |= {name: getattr(self, name) for name in ARRAYS} | {"meta": np.array(json.dumps(meta, default=_plain))}
        with replacing(path) as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Samples:
        """Read a file of `save`; nothing in it is executed.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        Samples
            The samples.

        Raises
        ------
        ValueError
            If the file is damaged, of a newer version, or not a file of samples.
        """
        try:
            arrays = read_npz(path)
            meta = json.loads(str(arrays.pop("meta")))
            if meta["format"] > FORMAT:
                raise ValueError(f"it was written by a newer solspace (format {meta['format']}); upgrade to read it")
            if meta["format"] < FORMAT:
                raise ValueError("it was written by version 0.1; read it with solspace 0.2, or draw the samples again")
            weights, stabilities, solved = own = [arrays.pop(name) for name in ARRAYS]
            intercepts = arrays.pop("intercepts", None)
            shapes = [one.shape for one in own]
            if [len(shape) for shape in shapes] != [2, 2, 1] or len({len(one) for one in own}) != 1:
                raise ValueError(f"its weights, stabilities and solved have the shapes {shapes}")
            if weights.dtype.kind not in "if" or stabilities.dtype.kind != "f" or solved.dtype != bool:
                raise ValueError("its weights, stabilities or solved have another type")
            if intercepts is not None and (intercepts.shape != solved.shape or not np.isfinite(intercepts).all()):
                raise ValueError("its intercepts are not finite numbers, one for each sample")
            if not np.isfinite(weights).all():
                raise ValueError("its weights are not finite")
            record = meta["info"] | {name.removeprefix("info/"): value for name, value in arrays.items()}
            target, info = Target.from_dict(meta["target"]), from_dict(record, meta["kind"])
            return cls(weights, stabilities, solved, target, info, meta.get("patterns"), intercepts)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason = str(error) if isinstance(error, ValueError) else "its description is damaged"
            reason = error.reason if isinstance(error, Damaged) else reason.rstrip(".")
            raise ValueError(f"{os.fspath(path)} is not a file of solspace samples: {reason}.") from error

    def by_chain(self) -> Array:
        """Return the weights by chain and draw; independent samples are chains of one draw.

        Returns
        -------
        ndarray
            (chains, draws, n).

        Raises
        ------
        ValueError
            If the chains have different numbers of draws.
        """
        labels = chains_of(self)
        chains = len(np.unique(labels))
        if chains and (len(labels) % chains or np.ptp(labels.reshape(chains, -1), axis=1).any()):
            why = "the draws of these chains are not equally many, chain by chain"
            raise ValueError(f"{why}: take whole chains, or the same draws of each.")
        return self.weights.reshape(chains, -1, self.n)

    def chain_overlaps(self) -> Array:
        """Return the mean overlap of each draw with the draws of all other chains.

        Its mean is the overlap of two independent samples if the chains have mixed. A single chain is compared with its own mean.

        Returns
        -------
        ndarray
            (chains, draws).
        """
        weights = self.by_chain()
        means = weights.mean(axis=1, dtype=np.float64)
        others = (means.sum(axis=0) - means) / (len(means) - 1) if len(means) > 1 else means
        return np.array([own @ other for own, other in zip(weights, others / self.n)])

    def extend(
        self,
        n_draws: int,
        problem: Perceptron | None = None,
        *,
        thin: int | None = None,
        n_threads: int | None = None,
        progress: bool | None = None,
    ) -> Samples:
        """Return these draws of annealed chains with more draws of each chain.

        The chains go on from their last draw with the random numbers that they would have had in one longer run, which gives
        the same samples. A run without `n_extra` had its only draw at the end of its schedule, and keeps it.

        Parameters
        ----------
        n_draws : int
            Further draws of each chain.
        problem : Perceptron, optional
            The problem that was sampled; needed for samples that were loaded from a file.
        thin : int, optional
            Sweeps between two draws; by default as before, 10 after a run with one draw.
        n_threads : int, optional
            Threads; all cores by default. The result does not depend on it.
        progress : bool, optional
            Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.

        Returns
        -------
        Samples
            Old and new draws, by chain.

        Raises
        ------
        ValueError
            If these are no draws of annealed chains, which ended at a positive temperature, or the problem is not known.

        Examples
        --------
        >>> import solspace as ss
        >>> problem = ss.Perceptron.random(n=101, alpha=0.3, rng=0)
        >>> samples = ss.anneal(problem, n_chains=4, n_sweeps=100, n_extra=50, rng=1)
        >>> longer = ss.anneal(problem, n_chains=4, n_sweeps=100, n_extra=80, rng=1)
        >>> np.array_equal(samples.extend(3).weights, longer.weights)
        True
        """
        from solspace.samplers.annealing.restart import extend

        whole(1)("n_draws", n_draws)
        optional(whole(1))("thin", thin)
        problem = self._problem if problem is None else instance(Perceptron)("problem", problem)
        return extend(self, problem, n_draws, thin, n_threads, progress)

    def to_arviz(self) -> Any:
        """Return weights and statistics for ArviZ.

        Returns
        -------
        InferenceData or DataTree
            By ArviZ 0.x or 1.x: group "posterior" with `weights`; group "sample_stats" with `overlap`, `solved`, `energy` where
            finite and, for annealed chains, `acceptance`.

        Raises
        ------
        ImportError
            If ArviZ is not installed.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # once a day ArviZ announces its next version
            # independent samples are chains of one draw, of which ArviZ 0 and 1 warn
            warnings.filterwarnings("ignore", "More chains|Found chain dimension")
            try:
                import arviz
            except ImportError:
                raise ImportError(f"to_arviz needs ArviZ: {install('arviz')}.") from None
            weights = self.by_chain()
            shape = weights.shape[:2]
            stats = {"overlap": self.chain_overlaps(), "solved": self.solved.reshape(shape)}
            if isinstance(self.info, AnnealingInfo):
                stats |= self.info.at_draws()
            elif np.isfinite(energy := self.energies()).all():
                stats["energy"] = energy.reshape(shape)
            drawn = {"weights": weights}
            if self.intercepts is not None:
                drawn["intercept"] = self.intercepts.reshape(shape)
            groups = {"posterior": drawn, "sample_stats": stats}
            # ArviZ 1 takes the groups as one mapping, ArviZ 0 by name
            return arviz.from_dict(**groups) if arviz.__version__.startswith("0.") else arviz.from_dict(groups)

    def energies(self) -> Array:
        """Return ΣU of each sample, infinite where a hard constraint is violated.

        Returns
        -------
        ndarray
            (k,).
        """
        return -scaled_log_weight(self.target.potential, self.stabilities - self.target.margin, 1.0).sum(axis=1)


def chains_of(samples: Samples) -> Array:
    """Return the chain of each sample, (k,); a sample that is independent of all others is a chain of its own."""
    chains = samples.info.chains
    return np.arange(len(samples)) if chains is None else np.asarray(chains)


def _rows(which: Any, k: int) -> Array:
    """Return the numbers of the samples that an index picks."""
    try:
        rows = np.arange(k)[which]
        if rows.ndim > 1:
            raise IndexError
        return np.atleast_1d(rows)
    except IndexError:
        ways = f"an integer from {-k} to {k - 1}, a slice, a mask ({k},) or integers"
        raise IndexError(f"samples are picked by {ways}; got {shown(which)}.") from None


def _plain(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"info holds a {type(value).__name__}, which cannot be saved.")
