"""Records of runs: one documented dataclass for each sampler, and one record for several runs of a problem.

Shapes: k samples, n weights, m constraints. Every record is also a mapping (`info["t"]`, `"t" in info`, `dict(info)`), and is
saved and loaded with its samples.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.plain import Values

__all__ = ["AnnealingInfo", "DrawsInfo", "Info", "LocalizationInfo", "SolvingInfo"]
RUN = {"sampler", "seed", "device", "wall_time", "extra"}  # entries on the run as a whole


def _each(axis: int = 0, fill: object = None, **default: Any) -> Any:
    """Return a field that holds a value for each sample along `axis`; shorter paths are padded with `fill`."""
    return field(metadata={"axis": axis, "fill": fill}, **default)


@dataclass(kw_only=True, frozen=True, eq=False)
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
        """Return the numbers that a sweep stores of every run.

        Returns
        -------
        dict of str to float
            Numbers by name.
        """
        return {}

    def to_dict(self) -> Values:
        """Return all entries that are not None.

        Returns
        -------
        dict
            Entries by name, those of `extra` among them.
        """
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        return {name: value for name, value in own.items() if value is not None} | self.extra

    def __getitem__(self, name: str) -> Any:
        return self.to_dict()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.to_dict())

    def __len__(self) -> int:
        return len(self.to_dict())


@dataclass(kw_only=True, frozen=True, eq=False)
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

    denoiser: str = "amp"
    reason: str = ""
    finish: int = 0
    left: Array | None = _each(default=None)
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    t: Array = _each(1, np.nan)
    overlap: Array = _each(1, np.nan)
    iterations: Array = _each(1, 0)
    converged: Array = _each(1, True)
    instability: Array = _each(1, np.nan)
    damping: Array = _each()
    careful: Array = _each()
    status: list[str] = _each()

    def numbers(self) -> dict[str, float]:
        ran = np.isfinite(self.instability)
        return {
            "iterations": float(np.sum(self.iterations) / len(self.damping)),
            "unconverged": float(np.mean(~np.asarray(self.converged, bool)[ran])) if ran.any() else 1.0,
            "instability": float(np.mean(np.nanmax(self.instability, axis=0, initial=0.0))),
        }


@dataclass(kw_only=True, frozen=True, eq=False)
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

    mode: str
    kernel: str
    key: int | None = None
    n_chains: int
    n_draws: int
    n_anneal: int
    chain: Array = _each()
    draw: Array = _each()
    acceptance: Array = _each()  # these and round_trips by chain
    energy: Array = _each()
    solved_at: Array = _each()
    draw_sweep: Array
    temperature: Array
    tau: Array | None = None
    ladder: Array | None = None
    swap_acceptance: Array | None = None
    round_trips: Array | None = _each(default=None)

    def at_draws(self) -> dict[str, Array]:
        """Return energy and acceptance of the sweeps that ended in draws; in mode "solve" of the last ones.

        Returns
        -------
        dict of str to ndarray
            "energy" and "acceptance", (chains, draws).
        """
        if self.mode == "solve":
            sweeps = np.maximum(np.isfinite(self.energy).sum(axis=1) - 1, 0)[:, None]
        else:
            sweeps = np.broadcast_to(np.asarray(self.draw_sweep), (self.n_chains, self.n_draws))
        return {name: np.take_along_axis(np.asarray(self[name]), sweeps, 1) for name in ("energy", "acceptance")}

    def numbers(self) -> dict[str, float]:
        return {"acceptance": float(np.nanmean(self.acceptance))}


@dataclass(kw_only=True, frozen=True, eq=False)
class DrawsInfo(Info):
    """Record of single draws, picked from annealed chains or joined from several runs.

    Whole chains are needed for R-hat, autocorrelation times, and to judge whether they have mixed.

    Attributes
    ----------
    mode : str
        "sample", or "solve" if some are solutions that follow no law.
    chain : ndarray
        (k,) chain of each draw; a sample that is independent of all others is a chain of its own.
    """

    kind: ClassVar[str] = "draws"

    mode: str = "sample"
    chain: Array = _each()


@dataclass(kw_only=True, frozen=True, eq=False)
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
    mode: ClassVar[str] = "solve"

    method: str
    tried: list[str]
    iterations: int
    restarts: int
    seconds: float
    unmet: Array = _each()
    ended: str = ""
    impossible: str = ""
    words: str = "these solutions follow no known law; for fair ones use localize or anneal"

    def numbers(self) -> dict[str, float]:
        numbers = {"iterations": self.iterations, "restarts": self.restarts, "unmet": np.min(self.unmet)}
        return {name: float(value) for name, value in numbers.items()}


def from_dict(values: Mapping[str, Any], kind: str) -> Info:
    """Return the record with the entries of `Info.to_dict`; `kind` is that of its class."""
    if kind == "localization" and "method" in values:  # the name of `accuracy` in version 0.2
        values = {"accuracy": values["method"], **values}
    kinds = (LocalizationInfo, AnnealingInfo, DrawsInfo, SolvingInfo)
    found = next((own for own in kinds if own.kind == kind), Info)
    known = {f.name for f in fields(found) if f.name != "extra"}
    own = {name: value for name, value in values.items() if name in known}
    return found(**own, extra={name: value for name, value in values.items() if name not in known})


def taken(info: Info, rows: Array) -> Info:
    """Return the record of the samples with the numbers `rows` (j,).

    Entries on the run (seed, wall time) are kept; of `extra` only numbers and strings.
    """
    if isinstance(info, AnnealingInfo):
        return _draws_taken(info, rows)
    own = {name: _entries(getattr(info, name), rows, axis) for name, (axis, _) in _each_of(info).items()}
    return replace(info, **own, extra=_scalars(info.extra))


def _draws_taken(info: AnnealingInfo, rows: Array) -> Info:
    """Return the record of whole chains, or of the same draws of several; a `DrawsInfo` for any other samples."""
    chain, draw = np.asarray(info.chain)[rows], np.asarray(info.draw)[rows]
    extra = _scalars(info.extra)
    grid = _grid(chain, draw)
    if grid is None:
        return DrawsInfo(**{name: getattr(info, name) for name in RUN} | {"extra": extra}, mode=info.mode, chain=chain)
    chains, draws = grid
    own = {name: _entries(getattr(info, name), chains, 0) for name in _each_of(info)}
    own["chain"] = np.repeat(np.arange(len(chains)), len(draws))
    own["draw"] = np.tile(np.arange(len(draws)), len(chains))
    if info.mode == "sample":
        own["draw_sweep"] = np.asarray(info.draw_sweep)[draws]
    return replace(info, **own, n_chains=len(chains), n_draws=len(draws), extra=extra)


def joined(records: Sequence[Info], sizes: Sequence[int]) -> Info:
    """Return the record of all samples of runs with these `records` and numbers of samples.

    Runs of one kind with equal settings keep their record. Of others only what holds for each sample is kept, and which of them
    belong to one chain: a `DrawsInfo`.

    >>> joined([Info(sampler="mine", wall_time=1.0), Info(sampler="mine", wall_time=2.0)], [3, 4]).wall_time
    3.0
    """
    kind, whole = type(records[0]), None
    if kind is not DrawsInfo and all(type(record) is kind for record in records):
        special: dict[type, Any] = {AnnealingInfo: _chains_joined, SolvingInfo: _searches_joined}
        whole = special.get(kind, _alike_joined)(records)
    return _draws_joined(records, sizes) if whole is None else whole


def _chains_joined(records: Sequence[AnnealingInfo]) -> Info | None:
    if len({record.energy.shape[1] for record in records}) > 1:
        return None
    chains = [record.n_chains for record in records]
    whole = _alike_joined(records, ("key", "n_chains", "swap_acceptance"))
    if whole is None:
        return None
    offsets = np.repeat(np.cumsum([0, *chains[:-1]]), [len(record.chain) for record in records])
    own: Values = {"n_chains": sum(chains), "chain": whole.chain + offsets}
    if whole.swap_acceptance is not None:
        own["swap_acceptance"] = np.average([one.swap_acceptance for one in records], axis=0, weights=chains)
    return replace(whole, **own, key=whole.key if _same([one.key for one in records]) else None)


def _searches_joined(records: Sequence[SolvingInfo]) -> Info:
    own: Values = {name: sum(one[name] for one in records) for name in ("iterations", "restarts", "seconds")}
    own |= {name: next((one[name] for one in records if one[name]), "") for name in ("ended", "impossible")}
    own["tried"] = list(dict.fromkeys(word for one in records for word in one.tried))
    own["unmet"] = np.concatenate([one.unmet for one in records])
    return replace(records[-1], **_common(records), **own)


def _draws_joined(records: Sequence[Info], sizes: Sequence[int]) -> DrawsInfo:
    labels, count = [], 0
    for record, size in zip(records, sizes):
        own = np.arange(size) if record.chains is None else np.unique(record.chains, return_inverse=True)[1]
        labels.append(own + count)
        count += int(own.max(initial=-1)) + 1
    mode = "solve" if any(one.lawless for one in records) else "sample"
    return DrawsInfo(**_common(records), mode=mode, chain=np.concatenate(labels))


def _alike_joined(records: Sequence[Any], but: Iterable[str] = ()) -> Any:
    """Return one record for runs whose settings are equal, apart from those in `but`; None for others."""
    each = _each_of(records[0])
    settings = {f.name for f in fields(records[0])} - RUN - set(each) - set(but)
    if not all(_same([getattr(one, name) for one in records]) for name in settings):
        return None
    own = {name: _stacked([getattr(one, name) for one in records], *how) for name, how in each.items()}
    return replace(records[0], **_common(records), **own)


def _common(records: Sequence[Info]) -> Values:
    """Return the entries on the runs: those that are equal, the samplers' names joined, and the sum of the times."""
    names = dict.fromkeys(record.sampler for record in records if record.sampler)
    times = [record.wall_time for record in records if record.wall_time is not None]
    same = {
        name: records[0].get(name) if _same([one.get(name) for one in records]) else None for name in ("seed", "device")
    }
    shared = set.intersection(*(set(record.extra) for record in records))
    extra = {name: records[0].extra[name] for name in sorted(shared) if _same([one.extra[name] for one in records])}
    wall_time = sum(times) if len(times) == len(records) else None
    return {"sampler": " + ".join(names), **same, "wall_time": wall_time, "extra": _scalars(extra)}


def _each_of(record: Info) -> dict[str, tuple[int, Any]]:
    """Return the entries with a value for each sample: the axis of the samples, and what pads shorter paths."""
    return {f.name: (f.metadata["axis"], f.metadata["fill"]) for f in fields(record) if f.metadata}


def _same(values: Sequence[object]) -> bool:
    return all(np.array_equal(np.asarray(values[0]), np.asarray(value)) for value in values[1:])


def _scalars(extra: Values) -> Values:
    return {name: value for name, value in extra.items() if np.isscalar(value)}


def _entries(values: Any, rows: Array, axis: int) -> Any:
    if values is None:
        return None
    return [values[row] for row in rows] if isinstance(values, list) else np.take(values, rows, axis)


def _stacked(parts: list[Any], axis: int, fill: Any) -> Any:
    if any(part is None for part in parts):
        return None
    if isinstance(parts[0], list):
        return [value for part in parts for value in part]
    steps = max(map(len, parts))
    if axis == 1:
        parts = [np.pad(part, [(0, steps - len(part)), (0, 0)], constant_values=fill) for part in parts]
    return np.concatenate(parts, axis)


def _grid(chain: Array, draw: Array) -> tuple[Array, Array] | None:
    """Return chains and draws whose every combination is there, chain by chain and in the order of time; None otherwise."""
    chains = chain[np.sort(np.unique(chain, return_index=True)[1])]
    if len(chain) == 0 or len(chain) % len(chains):
        return None
    chain, draw = chain.reshape(len(chains), -1), draw.reshape(len(chains), -1)
    whole = (chain == chain[:, :1]).all() and (draw == draw[0]).all() and (np.diff(draw[0]) > 0).all()
    return (chains, draw[0]) if whole else None
