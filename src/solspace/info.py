"""Records of runs: one documented dataclass for each sampler, and `DrawsInfo` for samples picked or joined from several runs.

Shapes: k samples, n weights, m constraints. Every record is also a mapping (`info["t"]`, `"t" in info`, `dict(info)`), and is
saved and loaded with its samples. The metadata of a field say how several runs are joined, and along which axis samples lie.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.plain import Values

__all__ = ["AnnealingInfo", "DrawsInfo", "Info", "LocalizationInfo", "SolvingInfo"]


def _same(values: Sequence[Any]) -> bool:
    return all(np.array_equal(values[0], value) for value in values[1:])


def _shared(values: list[Any]) -> Any:
    return values[0] if _same(values) else None


def _extra(values: list[Values]) -> Values:
    """Return the numbers and strings that all runs share."""
    scalars = {name: value for name, value in values[0].items() if np.isscalar(value)}
    return {name: value for name, value in scalars.items() if _same([one.get(name) for one in values])}


def _numbered(values: list[Array]) -> Array:
    """Return the labels of the chains of several runs, counted on from one run to the next."""
    labels, count = [], 0
    for own in values:
        numbers = np.unique(own, return_inverse=True)[1]
        labels.append(numbers + count)
        count += int(numbers.max(initial=-1)) + 1
    return np.concatenate(labels)


def _stacked(values: list[Any], axis: int, fill: Any) -> Any:
    if any(value is None for value in values):
        return None
    if isinstance(values[0], list):
        return [entry for value in values for entry in value]
    if axis == 1:
        steps = max(map(len, values))
        values = [np.pad(one, [(0, steps - len(one)), (0, 0)], constant_values=fill) for one in values]
    return np.concatenate(values, axis)


def _run(join: Callable[[list[Any]], Any], **default: Any) -> Any:
    """Return a field with one value for each run; fields without `join` are settings, which must be equal."""
    return field(metadata={"join": join}, **default)


def _each(axis: int = 0, fill: Any = None, join: Callable[[list[Any]], Any] | None = None, **default: Any) -> Any:
    """Return a field that holds a value for each sample along `axis`; shorter paths are padded with `fill`."""
    return field(metadata={"axis": axis, "join": join or partial(_stacked, axis=axis, fill=fill)}, **default)


@dataclass(kw_only=True, frozen=True, eq=False)
class Info(Mapping[str, Any]):
    """Record of a run of any sampler.

    Attributes
    ----------
    sampler : str
        Name of the sampler, as in `solspace sample --sampler`.
    seed, device : str or None
        Seed of the run, and "cpu" or "gpu".
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

    sampler: str = _run(lambda names: " + ".join(dict.fromkeys(filter(None, names))), default="")
    seed: str | None = _run(_shared, default=None)
    device: str | None = _run(_shared, default=None)
    wall_time: float | None = _run(lambda times: None if None in times else sum(times), default=None)
    extra: Values = _run(_extra, default_factory=dict)

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
    t, overlap, instability : ndarray
        (steps, k) time, |m|²/n, and λ = α mean(Δ²) mean(g'²).
    iterations, converged : ndarray
        (steps, k) iterations of message passing, and whether it met its tolerance.
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
        "integer" for ±1 patterns, "fixed point" for others; "levels" for other weights than plain ±1 ones, "slice" for real ones.
    key : int or None
        Key of the chains' random numbers; None for chains picked or joined from runs.
    n_chains, n_draws, n_anneal : int
        Chains, draws of each, and sweeps of the schedule; later ones sample its last stage.
    chain, draw : ndarray
        (k,) chain of each sample, and its number among the chain's draws.
    acceptance, energy : ndarray
        (chains, sweeps) share of accepted moves (of real weights: of angles tried), and ΣU, each term times its sample weight.
    solved_at : ndarray
        (chains,) first sweep at which a chain met every constraint, -1 if none.
    draw_sweep : ndarray
        (draws,) sweeps that ended in draws.
    temperature, tau : ndarray
        (sweeps,) T, and τ (None if some stage has none).
    ladder, swap_acceptance, round_trips : ndarray or None
        With exchange: (rungs,) sweeps of the schedule at whose stages replicas were exchanged, (rungs - 1,) share of accepted
        exchanges between neighbouring rungs, and (chains,) times that a replica went from the last rung to the first and back.
    """

    kind: ClassVar[str] = "annealing"
    PATH: ClassVar[tuple[str, ...]] = ("acceptance", "energy")

    mode: str
    kernel: str
    key: int | None = _run(_shared, default=None)
    n_chains: int = _run(sum)
    n_draws: int
    n_anneal: int
    chain: Array = _each(join=_numbered)
    draw: Array = _each()
    acceptance: Array = _each()  # these and round_trips by chain
    energy: Array = _each()
    solved_at: Array = _each()
    draw_sweep: Array
    temperature: Array
    tau: Array | None = None
    ladder: Array | None = None
    swap_acceptance: Array | None = _run(lambda shares: shares[0], default=None)  # weighted in `joined`
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
    iterations, restarts : int
        Iterations of message passing and sweeps of chains, of all runs in parallel; runs and chains beyond those needed if each
        found a solution.
    seconds : float
        Duration.
    unmet : ndarray
        (k,) constraints that each row of weights violates.
    ended, impossible : str
        Why the search stopped early, and why there is no solution; empty if it did not, or if that is not known.
    words : str
        What law the solutions follow.
    """

    kind: ClassVar[str] = "solving"
    mode: ClassVar[str] = "solve"

    method: str = _run(lambda names: names[-1])
    tried: list[str] = _run(lambda names: list(dict.fromkeys(name for own in names for name in own)))
    iterations: int = _run(sum)
    restarts: int = _run(sum)
    seconds: float = _run(sum)
    unmet: Array = _each()
    ended: str = _run(lambda reasons: max(reasons, key=bool), default="")
    impossible: str = _run(lambda reasons: max(reasons, key=bool), default="")
    words: str = "these solutions follow no known law; for fair ones use localize or anneal"

    def numbers(self) -> dict[str, float]:
        numbers = {"iterations": self.iterations, "restarts": self.restarts, "unmet": np.min(self.unmet)}
        return {name: float(value) for name, value in numbers.items()}


KINDS = {kind.kind: kind for kind in (Info, LocalizationInfo, AnnealingInfo, DrawsInfo, SolvingInfo)}


def from_dict(values: Mapping[str, Any], kind: str) -> Info:
    """Return the record with the entries of `Info.to_dict`; `kind` is that of its class."""
    if kind == "localization" and "method" in values:  # the name of `accuracy` in version 0.2
        values = {"accuracy": values["method"], **values}
    found = KINDS.get(kind, Info)
    known = {f.name for f in fields(found) if f.name != "extra"}
    own = {name: value for name, value in values.items() if name in known}
    return found(**own, extra={name: value for name, value in values.items() if name not in known})


def taken(info: Info, rows: Array) -> Info:
    """Return the record of the samples with the numbers `rows` (j,).

    Chains keep their record if whole ones are taken, or the same draws of several; other draws have a `DrawsInfo`. Entries on
    the run (seed, wall time) are kept; of `extra` only numbers and strings.
    """
    own: Values = {"extra": _extra([info.extra])}
    if isinstance(info, AnnealingInfo):
        chain, draw = np.asarray(info.chain)[rows], np.asarray(info.draw)[rows]
        grid = _grid(chain, draw)
        if grid is None:
            run = {f.name: getattr(info, f.name) for f in fields(Info)}
            return DrawsInfo(**run | own, mode=info.mode, chain=chain)
        rows, draws = grid
        own |= {"n_chains": len(rows), "n_draws": len(draws)}
        if not np.array_equal(rows, np.arange(len(rows))):
            own["key"] = None  # random numbers depend on the number of a chain
        own["chain"], own["draw"] = np.indices((len(rows), len(draws))).reshape(2, -1)
        if info.mode == "sample":
            own["draw_sweep"] = np.asarray(info.draw_sweep)[draws]
    for f in fields(info):
        value = getattr(info, f.name)
        if "axis" in f.metadata and f.name not in own and value is not None:
            listed = isinstance(value, list)
            own[f.name] = [value[row] for row in rows] if listed else np.take(value, rows, f.metadata["axis"])
    return replace(info, **own)


def _grid(chain: Array, draw: Array) -> tuple[Array, Array] | None:
    """Return chains and draws whose every combination is there, chain by chain and in the order of time; None otherwise."""
    chains, draws = np.array(list(dict.fromkeys(chain.tolist())), int), draw[chain == chain[:1]]
    whole = np.array_equal(chain, np.repeat(chains, len(draws))) and np.array_equal(draw, np.tile(draws, len(chains)))
    return (chains, draws) if whole and len(draws) and (np.diff(draws) > 0).all() else None


def joined(records: Sequence[Info], sizes: Sequence[int]) -> Info:
    """Return the record of all samples of runs with these `records` and numbers of samples.

    Runs of one kind with equal settings keep their record. Of others only what holds for each sample is kept, and which of them
    belong to one chain: a `DrawsInfo`.

    >>> joined([Info(sampler="mine", wall_time=1.0), Info(sampler="mine", wall_time=2.0)], [3, 4]).wall_time
    3.0
    """
    kind = type(records[0])
    settings = [f.name for f in fields(kind) if not f.metadata]
    alike = all(type(one) is kind for one in records) and all(_same([one.get(s) for one in records]) for s in settings)
    if alike and kind is not DrawsInfo:
        with suppress(ValueError):  # of arrays whose shapes differ
            own = _values_joined(kind, records)
            if own.get("swap_acceptance") is not None:
                shares, chains = zip(*((one["swap_acceptance"], one["n_chains"]) for one in records))
                own["swap_acceptance"] = np.average(shares, axis=0, weights=chains)
            return kind(**own)
    chain = _numbered([np.arange(size) if one.chains is None else one.chains for one, size in zip(records, sizes)])
    mode = "solve" if any(one.lawless for one in records) else "sample"
    return DrawsInfo(**_values_joined(Info, records), mode=mode, chain=chain)


def _values_joined(kind: type[Info], records: Sequence[Info]) -> Values:
    """Return the entries of a record of this `kind` for several runs."""
    joins = {f.name: f.metadata.get("join", _shared) for f in fields(kind)}
    return {name: join([getattr(one, name) for one in records]) for name, join in joins.items()}
