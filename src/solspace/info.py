"""What a sampler tells about a run: one documented record for each algorithm.

Shapes: k samples, n weights, m constraints. Every record can also be read by key, as a mapping (`info["t"]`, `"t" in info`,
`dict(info)`), and is saved and loaded with its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, ClassVar

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.plain import Values


@dataclass(kw_only=True, eq=False)
class Info(Mapping[str, Any]):
    """What is known of any run.

    >>> info = Info(sampler="mine", extra={"colour": "blue"})
    >>> info["colour"], info.sampler, dict(info)
    ('blue', 'mine', {'sampler': 'mine', 'colour': 'blue'})
    """

    kind: ClassVar[str] = "plain"
    PATH: ClassVar[tuple[str, ...]] = ()
    """Arrays that tell the way to the samples; a sweep keeps them where it is asked for `path`."""
    EACH: ClassVar[Mapping[str, int]] = {}
    """Entries with a value for each sample, and the axis of the samples in them."""

    sampler: str = ""
    """Name of the sampler, as in `solspace sample --sampler`."""
    seed: str | None = None
    device: str | None = None
    """"cpu" or "gpu"."""
    wall_time: float | None = None
    """Seconds."""
    extra: Values = field(default_factory=dict)
    """Whatever else a sampler of your own has to tell: numbers, strings, lists, arrays."""

    @property
    def chains(self) -> Array | None:
        """(k,) which chain each sample is a draw of; None where all are independent."""
        return None

    def numbers(self) -> dict[str, float]:
        """Return the numbers that a sweep keeps of every run."""
        return {}

    def take(self, rows: Array) -> Info:
        """Return the record of some of the samples, by their numbers `rows` (j,).

        What is said of the run (seed, wall time) stays that of the run. Of `extra` only numbers and words stay: nobody knows
        whether an array there has an entry for each sample.

        >>> Info(sampler="mine", extra={"colour": "blue", "heights": [1, 2, 3]}).take(np.array([0, 2]))["colour"]
        'blue'
        """
        own = {name: _taken(getattr(self, name), rows, axis) for name, axis in self.EACH.items()}
        words = {name: value for name, value in self.extra.items() if np.isscalar(value)}
        return replace(self, **own, extra=words)

    def to_dict(self) -> Values:
        """Return all that is known by name, what is not (None) left out."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "extra"}
        return {name: value for name, value in own.items() if value is not None} | self.extra

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], kind: str | None = None) -> Info:
        """Return the record that `to_dict` gave; `kind` says of which class it was (version 0.1 did not)."""
        if kind is None:
            kind = "annealing" if "acceptance" in values else "localization" if "overlap" in values else "plain"
            values = {_RENAMED.get(name, name): value for name, value in values.items()}
        if kind == LocalizationInfo.kind and "method" in values:  # the name in 0.2
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


_RENAMED = {"path": "kernel"}
"""Names of version 0.1."""


def _taken(values: Any, rows: Array, axis: int) -> Any:
    if values is None:
        return None
    return [values[row] for row in rows] if isinstance(values, list) else np.take(values, rows, axis)


@dataclass(kw_only=True, eq=False)
class LocalizationInfo(Info):
    """A stochastic localization: what was chosen, and what happened at every step to every sample.

    Rows of a sample that has arrived, or diverged, hold NaN, 0 iterations and True.
    """

    kind: ClassVar[str] = "localization"
    PATH: ClassVar[tuple[str, ...]] = ("t", "overlap", "iterations", "converged", "instability")
    EACH: ClassVar[Mapping[str, int]] = dict.fromkeys(PATH, 1) | dict.fromkeys(
        ("left", "damping", "careful", "status"), 0
    )

    denoiser: str = "amp"
    """"amp", "ep" or "function", and"""
    reason: str = ""
    """why, in words."""
    finish: int = 0
    """Sweeps of the heat bath with which samples leave; 0: the signs of their means are taken."""
    left: Array | None = None
    """(k,) time at which each sample left by heat bath, NaN where it did not."""
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    """Relative length of the first steps, or "grid": times were given."""
    t: Array
    """(steps, k) time."""
    overlap: Array
    """(steps, k) |m|²/n."""
    iterations: Array
    """(steps, k) iterations of message passing."""
    converged: Array
    """(steps, k) whether message passing met its tolerance."""
    instability: Array
    """(steps, k) λ = α mean(Δ²) mean(g'²)."""
    damping: Array
    """(k,) at the end."""
    careful: Array
    """(k,) whether a sample slowed down on its way."""
    status: list[str]
    """(k,) how each sample came about, in words."""

    def numbers(self) -> dict[str, float]:
        """Return iterations a sample, the fraction of calls that missed their tolerance, and the largest λ."""
        ran = np.isfinite(self.instability)
        return {
            "iterations": float(np.sum(self.iterations) / len(self.damping)),
            "unconverged": float(np.mean(~np.asarray(self.converged, bool)[ran])) if ran.any() else 1.0,
            "instability": float(np.mean(np.nanmax(self.instability, axis=0, initial=0.0))),
        }


@dataclass(kw_only=True, eq=False)
class AnnealingInfo(Info):
    """Annealed chains: what each did at every sweep, and which draw of which chain each sample is."""

    kind: ClassVar[str] = "annealing"
    PATH: ClassVar[tuple[str, ...]] = ("acceptance", "energy")

    mode: str
    """"sample" or "solve"."""
    kernel: str
    """"integer" for ±1 patterns, "fixed point" for others."""
    key: int | None = None
    """What the chains' random numbers are made from; None where they are those of several runs."""
    n_chains: int
    n_draws: int
    """Draws of each chain."""
    n_anneal: int
    """Sweeps of the schedule; further ones sample its last stage."""
    chain: Array
    """(k,) chain of each sample, and"""
    draw: Array
    """(k,) its number among the chain's draws."""
    acceptance: Array
    """(chains, sweeps) share of the flips that were made."""
    energy: Array
    """(chains, sweeps) ΣU."""
    solved_at: Array
    """(chains,) sweep at which a chain first met every constraint, -1 if it never did."""
    draw_sweep: Array
    """(draws,) sweeps that ended in draws."""
    temperature: Array
    """(sweeps,) T."""
    tau: Array | None = None
    """(sweeps,) τ, where all stages have one."""
    ladder: Array | None = None
    """(rungs,) sweeps of the schedule at whose stages replicas were exchanged; None: chains went alone."""
    swap_acceptance: Array | None = None
    """(rungs - 1,) share of the exchanges between neighbouring rungs that were made."""
    round_trips: Array | None = None
    """(chains,) times that a replica went from the last rung to the first and back."""

    @property
    def chains(self) -> Array:
        """(k,) which chain each sample is a draw of."""
        return self.chain

    def at_draws(self) -> dict[str, Array]:
        """Return `energy` and `acceptance` (chains, draws) of the sweeps that ended in draws; the last ones in mode "solve"."""
        places = self._sweeps()
        return {name: np.take_along_axis(np.asarray(self[name]), places, 1) for name in ("energy", "acceptance")}

    def _sweeps(self) -> Array:
        """Return the sweeps (chains, draws) that ended in draws."""
        if self.mode == "solve":
            done = np.isfinite(self.energy).sum(axis=1) - 1
            return np.maximum(done, 0)[:, None]
        return np.broadcast_to(np.asarray(self.draw_sweep), (self.n_chains, self.n_draws))

    def take(self, rows: Array) -> Info:
        """Return the record of some of the samples: of whole chains, or the same draws of several, as if no other had been.

        Anything else (draws picked one by one) cannot tell what chains tell: its record is a `DrawsInfo`.
        """
        chain, draw = np.asarray(self.chain)[rows], np.asarray(self.draw)[rows]
        grid = _grid(chain, draw)
        if grid is None:
            places = {"sweep": self._sweeps(), **self.at_draws()}
            picked = {name: values[chain, draw] for name, values in places.items()}
            about = {name: getattr(self, name) for name in ("sampler", "seed", "device", "wall_time")}
            return DrawsInfo(**about, mode=self.mode, chain=chain, **picked, extra=Info.take(self, rows).extra)
        chains, draws = grid
        own = {name: getattr(self, name) for name in ("acceptance", "energy", "solved_at", "round_trips")}
        return replace(
            self, **{name: _taken(values, chains, 0) for name, values in own.items()},
            n_chains=len(chains), n_draws=len(draws),
            chain=np.repeat(np.arange(len(chains)), len(draws)), draw=np.tile(np.arange(len(draws)), len(chains)),
            draw_sweep=np.asarray(self.draw_sweep)[draws] if self.mode == "sample" else self.draw_sweep,
            extra=Info.take(self, rows).extra,
        )  # fmt: skip

    def numbers(self) -> dict[str, float]:
        """Return the mean acceptance."""
        return {"acceptance": float(np.nanmean(self.acceptance))}


def _grid(chain: Array, draw: Array) -> tuple[Array, Array] | None:
    """Return chains and draws whose every combination is there, chain by chain and in the order of time; None otherwise."""
    chains = chain[np.sort(np.unique(chain, return_index=True)[1])]
    if len(chain) == 0 or len(chain) % len(chains):
        return None
    chain, draw = chain.reshape(len(chains), -1), draw.reshape(len(chains), -1)
    whole = (chain == chain[:, :1]).all() and (draw == draw[0]).all() and (np.diff(draw[0]) > 0).all()
    return (chains, draw[0]) if whole else None


@dataclass(kw_only=True, eq=False)
class DrawsInfo(Info):
    """Single draws, picked from annealed chains or put together from several runs: which of them belong to one chain.

    What whole chains tell (R-hat, autocorrelation times, whether they have mixed) cannot be told of them.
    """

    kind: ClassVar[str] = "draws"
    EACH: ClassVar[Mapping[str, int]] = dict.fromkeys(("chain", "sweep", "energy", "acceptance"), 0)

    mode: str = "sample"
    """"sample", or "solve" where some are solutions that follow no law."""
    chain: Array
    """(k,) chain that each is a draw of; a sample that is independent of all others is a chain of its own."""
    sweep: Array | None = None
    """(k,) sweep that ended in the draw; None, as below, where some come from no chain."""
    energy: Array | None = None
    """(k,) ΣU."""
    acceptance: Array | None = None
    """(k,) share of the flips that were made in that sweep."""

    @property
    def chains(self) -> Array:
        """(k,) which chain each sample is a draw of."""
        return self.chain


@dataclass(kw_only=True, eq=False)
class SolvingInfo(Info):
    """A search for solutions: what was tried, what it took, and how near it came where it found none."""

    kind: ClassVar[str] = "solving"
    EACH: ClassVar[Mapping[str, int]] = {"unmet": 0}
    LAWLESS: ClassVar[str] = "these solutions follow no known law; for fair ones use localize or anneal"

    method: str
    """What found the last solution, or was tried last: "reinforce", "tau", "ep" or "exact"."""
    tried: list[str]
    """All that was tried, in its order."""
    iterations: int
    """Iterations of message passing and sweeps of chains, of all runs side by side."""
    restarts: int
    """Runs and chains that were started beyond those that would do if each found a solution."""
    seconds: float
    unmet: Array
    """(k,) constraints that each row of weights misses, counted from the patterns."""
    ended: str = ""
    """Why the search stopped before it had all it was asked for: in words, empty if it has."""
    impossible: str = ""
    """Why there is no solution, in a sentence; empty where that is not known."""
    words: str = LAWLESS

    def numbers(self) -> dict[str, float]:
        """Return iterations, restarts, and the constraints unmet at best."""
        return {
            "iterations": float(self.iterations),
            "restarts": float(self.restarts),
            "unmet": float(np.min(self.unmet)),
        }
