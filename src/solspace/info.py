"""What a sampler tells about a run: one documented record for each algorithm.

Shapes: k samples, n weights, m constraints. Every record can also be read by key, as a mapping (`info["t"]`, `"t" in info`,
`dict(info)`), and is saved and loaded with its samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
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
        found = next((own for own in (LocalizationInfo, AnnealingInfo, SolvingInfo) if own.kind == kind), Info)
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


@dataclass(kw_only=True, eq=False)
class LocalizationInfo(Info):
    """A stochastic localization: what was chosen, and what happened at every step to every sample.

    Rows of a sample that has arrived, or diverged, hold NaN, 0 iterations and True.
    """

    kind: ClassVar[str] = "localization"
    PATH: ClassVar[tuple[str, ...]] = ("t", "overlap", "iterations", "converged", "instability")

    denoiser: str = "amp"
    """"amp", "ep" or "function", and"""
    reason: str = ""
    """why, in words."""
    finish: int = 0
    """Sweeps of the heat bath with which samples leave; 0: the signs of their means are taken."""
    left: Array | None = None
    """(k,) time at which each sample left by heat bath, NaN where it did not."""
    method: str
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
    key: int
    """What the chains' random numbers are made from."""
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
        if self.mode == "solve":
            done = np.isfinite(self.energy).sum(axis=1) - 1
            places = np.maximum(done, 0)[:, None]
        else:
            places = np.broadcast_to(np.asarray(self.draw_sweep), (self.n_chains, self.n_draws))
        return {name: np.take_along_axis(np.asarray(self[name]), places, 1) for name in ("energy", "acceptance")}

    def numbers(self) -> dict[str, float]:
        """Return the mean acceptance."""
        return {"acceptance": float(np.nanmean(self.acceptance))}


@dataclass(kw_only=True, eq=False)
class SolvingInfo(Info):
    """A search for solutions: what was tried, what it took, and how near it came where it found none."""

    kind: ClassVar[str] = "solving"
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
