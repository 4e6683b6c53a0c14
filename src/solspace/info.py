"""Records of runs: one documented dataclass for each sampler, and one record for several runs of a problem.

Shapes: k samples, n weights, m constraints. Every record is also a mapping (`info["t"]`, `"t" in info`, `dict(info)`), and is
saved and loaded with its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.plain import Values

RUN = {"sampler", "seed", "device", "wall_time", "extra"}  # entries on the run as a whole


@dataclass(kw_only=True, eq=False)
class Info(Mapping[str, Any]):
    """Record of a run of any sampler.

    Attributes
    ----------
    sampler : str
        Name of the sampler, as in `solspace sample --sampler`.
    seed : str or None
        Seed of the run.
    device : str or None
        "cpu" or "gpu".
    wall_time : float or None
        Seconds.
    extra : dict
        Further entries of a sampler of your own: numbers, strings, lists, arrays.

    Examples
    --------
    >>> info = Info(sampler="mine", extra={"colour": "blue"})
    >>> info["colour"], info.sampler, dict(info)
    ('blue', 'mine', {'sampler': 'mine', 'colour': 'blue'})
    """

    kind: ClassVar[str] = "plain"  # class of the record in files
    PATH: ClassVar[tuple[str, ...]] = ()  # arrays along the run; a sweep stores them if `path` is set
    EACH: ClassVar[Mapping[str, int]] = {}  # entries with a value for each sample, and the axis of the samples

    sampler: str = ""
    seed: str | None = None
    device: str | None = None
    wall_time: float | None = None
    extra: Values = field(default_factory=dict)

    @property
    def chains(self) -> Array | None:
        """(k,) chain of each sample; None if all samples are independent."""
        return getattr(self, "chain", None)

    @property
    def lawless(self) -> bool:
        """Whether some of the samples are solutions that follow no law."""
        return getattr(self, "mode", "sample") == "solve"

    def numbers(self) -> dict[str, float]:
        """Return the numbers that a sweep stores of every run."""
        return {}

    def take(self, rows: Array) -> Info:
        """Return the record of the samples with the numbers `rows` (j,).

        Entries on the run (seed, wall time) are kept; of `extra` numbers and strings, as its arrays may have no entry for each
        sample.
        """
        own = {name: _taken(getattr(self, name), rows, axis) for name, axis in self.EACH.items()}
        return replace(self, **own, extra=_scalars(self.extra))

    @classmethod
    def join(cls, records: Sequence[Any]) -> Info | None:
        """Return one record for several of this class; None if the runs differ in more than seed and chance."""
        return cls(**_common(records))

    def to_dict(self) -> Values:
        """Return all entries that are not None."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        return {name: value for name, value in own.items() if value is not None} | self.extra

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], kind: str | None = None) -> Info:
        """Return the record of class `kind` with these entries; `kind` is None in files of version 0.1."""
        if kind is None:
            kind = "annealing" if "acceptance" in values else "localization" if "overlap" in values else "plain"
            values = {"kernel" if name == "path" else name: value for name, value in values.items()}
        if kind == LocalizationInfo.kind and "method" in values:  # its name in 0.2
            values = {"accuracy" if name == "method" else name: value for name, value in values.items()}
        kinds = (LocalizationInfo, AnnealingInfo, DrawsInfo, SolvingInfo)
        found = next((own for own in kinds if own.kind == kind), Info)
        known = {f.name for f in fields(found) if f.name != "extra"}
        own = {name: value for name, value in values.items() if name in known}
        return found(**own, extra={name: value for name, value in values.items() if name not in known})

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@dataclass(kw_only=True, eq=False)
class LocalizationInfo(Info):
    """Record of a stochastic localization: its settings, and every step of every sample.

    Rows of a sample after its arrival or divergence hold NaN, 0 iterations and True.

    Attributes
    ----------
    denoiser, reason : str
        "amp", "ep" or "function", and why it was chosen.
    finish : int
        Sweeps of the heat bath at the end; 0 if the signs of the means are taken.
    left : ndarray or None
        (k,) time at which each sample left by the heat bath, NaN if it did not.
    accuracy, integrator, variances, precision : str
        Settings of the run.
    final_time : float
        End of the path.
    step : float or str
        Relative length of the first steps, or "grid" for given times.
    t, overlap : ndarray
        (steps, k) time, and |m|²/n.
    iterations, converged : ndarray
        (steps, k) iterations of message passing, and whether it met its tolerance.
    instability : ndarray
        (steps, k) λ = α mean(Δ²) mean(g'²).
    damping, careful : ndarray
        (k,) final damping, and whether a sample slowed down on its way.
    status : list of str
        (k,) how each sample was obtained, in words.
    """

    kind: ClassVar[str] = "localization"
    PATH: ClassVar[tuple[str, ...]] = ("t", "overlap", "iterations", "converged", "instability")
    EACH: ClassVar[Mapping[str, int]] = dict.fromkeys(PATH, 1) | dict.fromkeys(
        ("left", "damping", "careful", "status"), 0
    )

    denoiser: str = "amp"
    reason: str = ""
    finish: int = 0
    left: Array | None = None
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    t: Array
    overlap: Array
    iterations: Array
    converged: Array
    instability: Array
    damping: Array
    careful: Array
    status: list[str]

    def numbers(self) -> dict[str, float]:
        """Return iterations per sample, the fraction of calls that missed their tolerance, and the largest λ."""
        ran = np.isfinite(self.instability)
        return {
            "iterations": float(np.sum(self.iterations) / len(self.damping)),
            "unconverged": float(np.mean(~np.asarray(self.converged, bool)[ran])) if ran.any() else 1.0,
            "instability": float(np.mean(np.nanmax(self.instability, axis=0, initial=0.0))),
        }

    @classmethod
    def join(cls, records: Sequence[LocalizationInfo]) -> Info | None:
        """Return one record for paths with equal settings, padded to the longest; None for others."""
        if not _alike(records, RUN | set(cls.EACH)):
            return None
        steps = max(len(record.t) for record in records)
        fills = {"t": np.nan, "overlap": np.nan, "iterations": 0, "converged": True, "instability": np.nan}
        own: Values = {
            name: np.concatenate([_padded(getattr(one, name), steps, fill) for one in records], axis=1)
            for name, fill in fills.items()
        }
        own |= {name: np.concatenate([getattr(one, name) for one in records]) for name in ("damping", "careful")}
        own["status"] = [word for one in records for word in one.status]
        if any(one.left is not None for one in records):
            left = [np.full(len(one.damping), np.nan) if one.left is None else one.left for one in records]
            own["left"] = np.concatenate(left)
        return replace(records[0], **own, **_common(records))


@dataclass(kw_only=True, eq=False)
class AnnealingInfo(Info):
    """Record of annealed chains: every sweep of each, and the chain and draw of each sample.

    Attributes
    ----------
    mode : str
        "sample", or "solve" for chains that stop at their first solution.
    kernel : str
        "integer" for ±1 patterns, "fixed point" for others.
    key : int or None
        Key of the chains' random numbers; None for chains of several runs.
    n_chains, n_draws : int
        Chains, and draws of each.
    n_anneal : int
        Sweeps of the schedule; later ones sample its last stage.
    chain, draw : ndarray
        (k,) chain of each sample, and its number among the chain's draws.
    acceptance, energy : ndarray
        (chains, sweeps) share of accepted flips, and ΣU.
    solved_at : ndarray
        (chains,) first sweep at which a chain met every constraint, -1 if none.
    draw_sweep : ndarray
        (draws,) sweeps that ended in draws.
    temperature, tau : ndarray
        (sweeps,) T, and τ (None if some stage has none).
    ladder : ndarray or None
        (rungs,) sweeps of the schedule at whose stages replicas were exchanged; None without exchange.
    swap_acceptance : ndarray or None
        (rungs - 1,) share of accepted exchanges between neighbouring rungs.
    round_trips : ndarray or None
        (chains,) times that a replica went from the last rung to the first and back.
    """

    kind: ClassVar[str] = "annealing"
    PATH: ClassVar[tuple[str, ...]] = ("acceptance", "energy")
    CHAINS: ClassVar[tuple[str, ...]] = ("acceptance", "energy", "solved_at", "round_trips")  # by chain

    mode: str
    kernel: str
    key: int | None = None
    n_chains: int
    n_draws: int
    n_anneal: int
    chain: Array
    draw: Array
    acceptance: Array
    energy: Array
    solved_at: Array
    draw_sweep: Array
    temperature: Array
    tau: Array | None = None
    ladder: Array | None = None
    swap_acceptance: Array | None = None
    round_trips: Array | None = None

    def at_draws(self) -> dict[str, Array]:
        """Return `energy` and `acceptance` (chains, draws) of the sweeps that ended in draws; in mode "solve" of the last."""
        places = self._sweeps()
        return {name: np.take_along_axis(np.asarray(self[name]), places, 1) for name in ("energy", "acceptance")}

    def _sweeps(self) -> Array:
        """Return the sweeps (chains, draws) that ended in draws."""
        if self.mode == "solve":
            return np.maximum(np.isfinite(self.energy).sum(axis=1) - 1, 0)[:, None]
        return np.broadcast_to(np.asarray(self.draw_sweep), (self.n_chains, self.n_draws))

    def take(self, rows: Array) -> Info:
        """Return the record of whole chains, or of the same draws of several; a `DrawsInfo` for any other samples."""
        chain, draw = np.asarray(self.chain)[rows], np.asarray(self.draw)[rows]
        extra = _scalars(self.extra)
        grid = _grid(chain, draw)
        if grid is None:
            places = {"sweep": self._sweeps(), **self.at_draws()}
            picked: Values = {name: values[chain, draw] for name, values in places.items()}
            picked |= {name: getattr(self, name) for name in RUN - {"extra"}}
            return DrawsInfo(**picked, mode=self.mode, chain=chain, extra=extra)
        chains, draws = grid
        own = {name: _taken(getattr(self, name), chains, 0) for name in self.CHAINS}
        own["chain"] = np.repeat(np.arange(len(chains)), len(draws))
        own["draw"] = np.tile(np.arange(len(draws)), len(chains))
        if self.mode == "sample":
            own["draw_sweep"] = np.asarray(self.draw_sweep)[draws]
        return replace(self, **own, n_chains=len(chains), n_draws=len(draws), extra=extra)

    def numbers(self) -> dict[str, float]:
        """Return the mean acceptance."""
        return {"acceptance": float(np.nanmean(self.acceptance))}

    @classmethod
    def join(cls, records: Sequence[AnnealingInfo]) -> Info | None:
        """Return one record for chains of equal length under one schedule; None for others."""
        by_chance = {*RUN, *cls.CHAINS, "key", "n_chains", "chain", "draw", "swap_acceptance"}
        lengths = {(record.energy.shape[1], record.swap_acceptance is None) for record in records}
        if not _alike(records, by_chance) or len(lengths) > 1:
            return None
        first, chains = records[0], [record.n_chains for record in records]
        own: Values = {
            name: None
            if getattr(first, name) is None
            else np.concatenate([getattr(record, name) for record in records])
            for name in (*cls.CHAINS, "draw")
        }
        offsets = np.cumsum([0, *chains[:-1]])
        own["chain"] = np.concatenate([record.chain + offset for record, offset in zip(records, offsets)])
        if first.swap_acceptance is not None:
            own["swap_acceptance"] = np.average([one.swap_acceptance for one in records], axis=0, weights=chains)
        own["key"] = first.key if _same([record.key for record in records]) else None
        return replace(first, **own, **_common(records), n_chains=sum(chains))


@dataclass(kw_only=True, eq=False)
class DrawsInfo(Info):
    """Record of single draws, picked from annealed chains or joined from several runs.

    Whole chains are needed for R-hat, autocorrelation times, and to judge whether they have mixed.

    Attributes
    ----------
    mode : str
        "sample", or "solve" if some are solutions that follow no law.
    chain : ndarray
        (k,) chain of each draw; a sample that is independent of all others is a chain of its own.
    sweep, energy, acceptance : ndarray or None
        (k,) sweep that ended in the draw, its ΣU, and its share of accepted flips; None if some draws are from no chain.
    """

    kind: ClassVar[str] = "draws"
    EACH: ClassVar[Mapping[str, int]] = dict.fromkeys(("chain", "sweep", "energy", "acceptance"), 0)

    mode: str = "sample"
    chain: Array
    sweep: Array | None = None
    energy: Array | None = None
    acceptance: Array | None = None

    @classmethod
    def join(cls, records: Sequence[DrawsInfo]) -> Info | None:
        """Return None: draws are joined with their numbers of samples, by `joined`."""
        return None


@dataclass(kw_only=True, eq=False)
class SolvingInfo(Info):
    """Record of a search for solutions.

    Attributes
    ----------
    method : str
        Method that found the last solution, or was tried last: "reinforce", "tau", "ep" or "exact".
    tried : list of str
        All methods, in the order of their trial.
    iterations : int
        Iterations of message passing and sweeps of chains, of all runs in parallel.
    restarts : int
        Runs and chains beyond those needed if each found a solution.
    seconds : float
        Duration.
    unmet : ndarray
        (k,) constraints that each row of weights violates.
    ended : str
        Why the search stopped early; empty if it found all solutions that were requested.
    impossible : str
        Why there is no solution; empty if that is not known.
    words : str
        What law the solutions follow.
    """

    kind: ClassVar[str] = "solving"
    EACH: ClassVar[Mapping[str, int]] = {"unmet": 0}
    mode: ClassVar[str] = "solve"
    LAWLESS: ClassVar[str] = "these solutions follow no known law; for fair ones use localize or anneal"

    method: str
    tried: list[str]
    iterations: int
    restarts: int
    seconds: float
    unmet: Array
    ended: str = ""
    impossible: str = ""
    words: str = LAWLESS

    def numbers(self) -> dict[str, float]:
        """Return iterations, restarts, and the smallest number of violated constraints."""
        numbers = {"iterations": self.iterations, "restarts": self.restarts, "unmet": np.min(self.unmet)}
        return {name: float(value) for name, value in numbers.items()}

    @classmethod
    def join(cls, records: Sequence[SolvingInfo]) -> Info | None:
        """Return one record for all searches."""
        own: Values = {
            name: sum(getattr(one, name) for one in records) for name in ("iterations", "restarts", "seconds")
        }
        own |= {
            name: next(filter(None, (getattr(one, name) for one in records)), "") for name in ("ended", "impossible")
        }
        own["tried"] = list(dict.fromkeys(word for one in records for word in one.tried))
        own["unmet"] = np.concatenate([one.unmet for one in records])
        return replace(records[-1], **_common(records), **own)


def joined(records: Sequence[Info], sizes: Sequence[int]) -> Info:
    """Return the record of all samples of runs with these `records` and numbers of samples.

    Runs of one kind with equal settings keep their record. Of others only what holds for each sample is kept, and which of them
    belong to one chain: a `DrawsInfo`.

    >>> joined([Info(sampler="mine", wall_time=1.0), Info(sampler="mine", wall_time=2.0)], [3, 4]).wall_time
    3.0
    """
    kinds = {type(record) for record in records}
    whole = kinds.pop().join(records) if len(kinds) == 1 else None
    return _draws(records, sizes) if whole is None else whole


def _draws(records: Sequence[Info], sizes: Sequence[int]) -> DrawsInfo:
    labels, count = [], 0
    for record, size in zip(records, sizes):
        own = np.arange(size) if record.chains is None else np.unique(record.chains, return_inverse=True)[1]
        labels.append(own + count)
        count += int(own.max(initial=-1)) + 1
    names = ("sweep", "energy", "acceptance")
    parts: list[Values] = []
    for one in records:
        if isinstance(one, AnnealingInfo):
            parts.append({name: values.ravel() for name, values in one.at_draws().items()})
        else:
            parts.append({name: getattr(one, name) for name in names} if isinstance(one, DrawsInfo) else {})
    known = [name for name in names if all(part.get(name) is not None for part in parts)]
    each: Values = {name: np.concatenate([part[name] for part in parts]) for name in known}
    mode = "solve" if any(one.lawless for one in records) else "sample"
    return DrawsInfo(**_common(records), **each, mode=mode, chain=np.concatenate(labels))


def _common(records: Sequence[Info]) -> Values:
    """Return the entries on the runs: those that are equal, the samplers' names joined, and the sum of the times."""
    names = list(dict.fromkeys(record.sampler for record in records if record.sampler))
    times = [record.wall_time for record in records if record.wall_time is not None]
    own = {name: getattr(records[0], name) for name in ("seed", "device")}
    same = {name: value if _same([getattr(one, name) for one in records]) else None for name, value in own.items()}
    shared = set.intersection(*(set(record.extra) for record in records))
    extra = {name: records[0].extra[name] for name in sorted(shared) if _same([one.extra[name] for one in records])}
    wall_time = sum(times) if len(times) == len(records) else None
    return {"sampler": " + ".join(names), **same, "wall_time": wall_time, "extra": _scalars(extra)}


def _alike(records: Sequence[Info], but: set[str]) -> bool:
    names = [f.name for f in fields(records[0]) if f.name not in but]
    return all(_same([getattr(record, name) for record in records]) for name in names)


def _same(values: Sequence[object]) -> bool:
    return all(np.array_equal(np.asarray(values[0]), np.asarray(value)) for value in values[1:])


def _scalars(extra: Values) -> Values:
    return {name: value for name, value in extra.items() if np.isscalar(value)}


def _taken(values: Any, rows: Array, axis: int) -> Any:
    if values is None:
        return None
    return [values[row] for row in rows] if isinstance(values, list) else np.take(values, rows, axis)


def _padded(values: Array, steps: int, fill: Any) -> Array:
    values = np.asarray(values)
    return np.concatenate([values, np.full((steps - len(values), values.shape[1]), fill, values.dtype)])


def _grid(chain: Array, draw: Array) -> tuple[Array, Array] | None:
    """Return chains and draws whose every combination is there, chain by chain and in the order of time; None otherwise."""
    chains = chain[np.sort(np.unique(chain, return_index=True)[1])]
    if len(chain) == 0 or len(chain) % len(chains):
        return None
    chain, draw = chain.reshape(len(chains), -1), draw.reshape(len(chains), -1)
    whole = (chain == chain[:, :1]).all() and (draw == draw[0]).all() and (np.diff(draw[0]) > 0).all()
    return (chains, draw[0]) if whole else None
