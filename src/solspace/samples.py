"""What a sampler returns: weights, their stabilities, whether each solves its problem, and how the run went."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from solspace.info import AnnealingInfo, Info
from solspace.measure import Target
from solspace.measure.potential import scaled_log_weight
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.system.arrays import Damaged, read_npz
from solspace.system.files import replacing

FORMAT = 2


class Samples:
    """Weights (k, n), stabilities (k, m), solved (k,), and `info` about the run: a record of `solspace.info`.

    >>> problem = Perceptron.random(n=7, alpha=0.4, rng=0)
    >>> samples = Samples.of(problem, problem.enumerate().sample(4, rng=1), {"sampler": "exact"})
    >>> samples
    Samples(k=4, n=7, m=3, solved 4/4, exact)
    >>> samples.overlaps().shape
    (6,)
    """

    def __init__(
        self, weights: Array, stabilities: Array, solved: Array, target: Target, info: Mapping[str, Any] | None = None
    ) -> None:
        self.weights, self.stabilities, self.solved = weights, stabilities, np.asarray(solved, dtype=bool)
        self.target = target
        self.info = info if isinstance(info, Info) else Info.from_dict(info or {}, "plain")

    @classmethod
    def of(
        cls,
        problem: Perceptron,
        weights: Array,
        info: Mapping[str, Any] | None = None,
        stabilities: Array | None = None,
    ) -> Samples:
        """Return the samples `weights` (k, n) of `problem`; stabilities and `solved` are computed from the patterns.

        `stabilities` (k, m) where a device has computed them already.
        """
        stabilities = problem.stabilities(weights) if stabilities is None else stabilities
        met = ~problem.target.violated(stabilities).any(axis=1)
        return cls(weights, stabilities, met & problem.target.prior.contains(weights), problem.target, info)

    def __len__(self) -> int:
        return len(self.weights)

    @property
    def n(self) -> int:
        """Number of weights of a sample."""
        return self.weights.shape[1]

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.stabilities.shape[1]

    def overlaps(self) -> Array:
        """Return ⟨w_a, w_b⟩/n for all pairs a < b, (k(k-1)/2,)."""
        weights = self.weights.astype(np.float64)
        gram = weights @ weights.T / self.n
        return gram[np.triu_indices(len(weights), 1)]

    def __repr__(self) -> str:
        name = self.info.sampler
        return (
            f"Samples(k={len(self)}, n={self.n}, m={self.m}, solved {int(self.solved.sum())}/{len(self)}"
            + (f", {name}" if name else "")
            + ")"
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to one compressed `.npz` file, whole or not at all."""
        told = self.info.to_dict()
        arrays = {f"info/{name}": value for name, value in told.items() if isinstance(value, np.ndarray)}
        plain = {name: value for name, value in told.items() if not isinstance(value, np.ndarray)}
        meta = {"format": FORMAT, "target": self.target.to_dict(), "info": plain, "kind": self.info.kind}
        with replacing(path) as file:
            np.savez_compressed(
                file,
                weights=self.weights,
                stabilities=self.stabilities,
                solved=self.solved,
                meta=np.array(json.dumps(meta, default=_plain)),
                **arrays,  # type: ignore[arg-type]
            )

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Samples:
        """Read what `save` wrote; nothing in the file is executed."""
        try:
            return cls._loaded(read_npz(path))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            said = str(error).rstrip(".") if isinstance(error, ValueError) else "its description is damaged"
            reason = error.reason if isinstance(error, Damaged) else said
            raise ValueError(f"{os.fspath(path)} is not a file of solspace samples: {reason}.") from error

    @classmethod
    def _loaded(cls, arrays: dict[str, Array]) -> Samples:
        meta = json.loads(str(arrays.pop("meta")))
        if meta["format"] > FORMAT:
            raise ValueError(f"it was written by a newer solspace (format {meta['format']}); upgrade to read it")
        weights, stabilities, solved = (arrays.pop(name) for name in ("weights", "stabilities", "solved"))
        shapes = weights.shape, stabilities.shape, solved.shape
        if (weights.ndim, stabilities.ndim, solved.ndim) != (2, 2, 1) or len({shape[0] for shape in shapes}) != 1:
            raise ValueError(f"its weights, stabilities and solved have the shapes {shapes}")
        if weights.dtype.kind not in "if" or stabilities.dtype.kind != "f" or solved.dtype != bool:
            raise ValueError("its weights, stabilities or solved have another type")
        if not np.isfinite(weights).all():
            raise ValueError("its weights are not finite")
        target = Target.from_dict(meta["target"])
        info = {**meta["info"], **{name.removeprefix("info/"): value for name, value in arrays.items()}}
        return cls(weights, stabilities, solved, target, Info.from_dict(info, meta.get("kind")))

    def by_chain(self) -> Array:
        """Return the weights (chains, draws, n) as chains drew them; samples that are independent are chains of one draw."""
        chains = len(self) if self.info.chains is None else len(np.unique(self.info.chains))
        return self.weights.reshape(chains, -1, self.n)

    def chain_overlaps(self) -> Array:
        """Return (chains, draws) the mean overlap of each draw with the draws of all other chains.

        Its mean is the overlap of two independent samples, as far as chains have mixed. Of a single chain: with its mean.
        """
        weights = self.by_chain()
        means = weights.mean(axis=1, dtype=np.float64)
        others = (means.sum(axis=0) - means) / (len(means) - 1) if len(means) > 1 else means
        return np.array([own @ other for own, other in zip(weights, others / self.n)])

    def to_arviz(self) -> Any:
        """Return `weights` and how they were drawn for ArviZ, chains and draws as the sampler made them.

        An `InferenceData` with ArviZ 0.x, a `DataTree` with ArviZ 1.x. In both, `["posterior"]` has the `weights`, and
        `["sample_stats"]` for each draw `overlap` (with the draws of the other chains), `solved`, `energy` ΣU (where it is
        finite) and, of annealed chains, the `acceptance` of the sweep that ended in it.
        """
        try:
            import arviz
        except ImportError:
            raise ImportError("to_arviz needs ArviZ: pip install 'solspace[arviz]'.") from None
        weights = self.by_chain()
        shape = weights.shape[:2]
        stats = {"overlap": self.chain_overlaps(), "solved": self.solved.reshape(shape)}
        if isinstance(self.info, AnnealingInfo):
            stats |= self.info.at_draws()
        else:
            energy = self.energies()
            if np.isfinite(energy).all():
                stats["energy"] = energy.reshape(shape)
        groups = {"posterior": {"weights": weights}, "sample_stats": stats}
        with warnings.catch_warnings():
            # Independent samples are chains of one draw, on purpose; ArviZ 0 and 1 say it in words of their own.
            warnings.filterwarnings("ignore", "More chains|Found chain dimension")
            # ArviZ 1 takes the groups as one mapping, ArviZ 0 each by its name.
            return arviz.from_dict(**groups) if arviz.__version__.startswith("0.") else arviz.from_dict(groups)

    def energies(self) -> Array:
        """Return ΣU of each sample, (k,); infinite where a hard constraint is violated."""
        return -scaled_log_weight(self.target.potential, self.stabilities - self.target.margin, 1.0).sum(axis=1)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"info holds a {type(value).__name__}, which cannot be saved.")
