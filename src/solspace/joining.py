"""One record for the samples of several runs of a problem, one behind another.

Runs of one kind that were asked for the same stay what they were: paths of localizations lie side by side, chains of equal
length are chains of one run. What differs in more than seed and chance (other schedules, other samplers) has no path or
chains in common; then only that remains which is true of each sample, and which of them belong to one chain: a `DrawsInfo`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any, TypeVar

import numpy as np

from solspace.info import AnnealingInfo, DrawsInfo, Info, LocalizationInfo, SolvingInfo
from solspace.numerics.arrays import Array
from solspace.system.plain import Values

FILL = {"t": np.nan, "overlap": np.nan, "iterations": 0, "converged": True, "instability": np.nan}
"""What the path of a sample holds after its arrival."""
RUN = ("sampler", "seed", "device", "wall_time", "extra")
CHAINS = ("acceptance", "energy", "solved_at", "round_trips")
"""Entries of annealed chains with a value for each chain."""
CHANCE = {*RUN, *CHAINS, "key", "n_chains", "chain", "draw", "swap_acceptance"}
"""Entries that may differ between runs whose chains can be put side by side."""
Kind = TypeVar("Kind", bound=Info)


def joined(records: Sequence[Info], sizes: Sequence[int]) -> Info:
    """Return the record of all samples of runs with these `records` and numbers of samples.

    >>> joined([Info(sampler="mine", wall_time=1.0), Info(sampler="mine", wall_time=2.0)], [3, 4]).wall_time
    3.0
    """
    if localized := _all(LocalizationInfo, records):
        return _localized(localized) if _alike(localized, {*RUN, *LocalizationInfo.EACH}) else _draws(records, sizes)
    if annealed := _all(AnnealingInfo, records):
        return _annealed(annealed) if _alike(annealed, CHANCE) and _long(annealed) else _draws(records, sizes)
    if solving := _all(SolvingInfo, records):
        return _solving(solving)
    if {type(record) for record in records} == {Info}:
        return Info(**_about(records))
    return _draws(records, sizes)


def _all(kind: type[Kind], records: Sequence[Info]) -> list[Kind]:
    return [one for one in records if isinstance(one, kind)] if all(isinstance(one, kind) for one in records) else []


def _alike(records: Sequence[Info], but: set[str]) -> bool:
    names = [f.name for f in fields(records[0]) if f.name not in but]
    return all(_same([getattr(record, name) for record in records]) for name in names)


def _same(values: Sequence[object]) -> bool:
    return all(np.array_equal(np.asarray(values[0]), np.asarray(value)) for value in values[1:])


def _long(records: Sequence[AnnealingInfo]) -> bool:
    """Return whether all chains made as many sweeps, and either all or none exchanged replicas."""
    return len({np.shape(record.energy)[1] for record in records}) == 1 and (
        len({record.swap_acceptance is None for record in records}) == 1
    )


def _about(records: Sequence[Info]) -> Values:
    """Return what is said of runs: what all say, names one behind another, and the time of all together."""
    names = list(dict.fromkeys(record.sampler for record in records if record.sampler))
    times = [record.wall_time for record in records if record.wall_time is not None]
    same = {
        name: getattr(records[0], name) if _same([getattr(record, name) for record in records]) else None
        for name in ("seed", "device")
    }
    shared = set.intersection(*(set(record.extra) for record in records))
    extra = {name: records[0].extra[name] for name in sorted(shared) if _same([one.extra[name] for one in records])}
    return {
        "sampler": " + ".join(names), **same, "wall_time": sum(times) if len(times) == len(records) else None,
        "extra": {name: value for name, value in extra.items() if np.isscalar(value)},
    }  # fmt: skip


def _localized(records: Sequence[LocalizationInfo]) -> LocalizationInfo:
    steps = max(len(record.t) for record in records)
    own: Values = {
        name: np.concatenate([_padded(getattr(one, name), steps, fill) for one in records], axis=1)
        for name, fill in FILL.items()
    }
    own |= {name: np.concatenate([getattr(one, name) for one in records]) for name in ("damping", "careful")}
    own["status"] = [word for one in records for word in one.status]
    if any(one.left is not None for one in records):
        own["left"] = np.concatenate(
            [np.full(len(one.damping), np.nan) if one.left is None else one.left for one in records]
        )
    return replace(records[0], **own, **_about(records))


def _padded(values: Array, steps: int, fill: Any) -> Array:
    values = np.asarray(values)
    return np.concatenate([values, np.full((steps - len(values), values.shape[1]), fill, values.dtype)])


def _annealed(records: Sequence[AnnealingInfo]) -> AnnealingInfo:
    first, chains = records[0], [record.n_chains for record in records]
    offsets = np.cumsum([0, *chains[:-1]])
    own: Values = {
        name: None if getattr(first, name) is None else np.concatenate([getattr(record, name) for record in records])
        for name in (*CHAINS, "draw")
    }
    if first.swap_acceptance is not None:
        own["swap_acceptance"] = np.average([record.swap_acceptance for record in records], axis=0, weights=chains)
    return replace(
        first, **own, **_about(records), n_chains=sum(chains),
        chain=np.concatenate([record.chain + offset for record, offset in zip(records, offsets)]),
        key=first.key if _same([record.key for record in records]) else None,
    )  # fmt: skip


def _solving(records: Sequence[SolvingInfo]) -> SolvingInfo:
    last = records[-1]
    return replace(
        last, **_about(records), tried=list(dict.fromkeys(word for record in records for word in record.tried)),
        iterations=sum(record.iterations for record in records), restarts=sum(record.restarts for record in records),
        seconds=sum(record.seconds for record in records), unmet=np.concatenate([record.unmet for record in records]),
        ended=next((record.ended for record in records if record.ended), ""),
        impossible=next((record.impossible for record in records if record.impossible), ""),
    )  # fmt: skip


def _draws(records: Sequence[Info], sizes: Sequence[int]) -> DrawsInfo:
    labels, count = [], 0
    for record, size in zip(records, sizes):
        own = np.arange(size) if record.chains is None else np.unique(record.chains, return_inverse=True)[1]
        labels.append(own + count)
        count += int(own.max(initial=-1)) + 1
    lawless = any(isinstance(one, SolvingInfo) or getattr(one, "mode", "") == "solve" for one in records)
    parts = [_single(record) for record in records]
    known = [name for name in ("sweep", "energy", "acceptance") if all(name in part for part in parts)]
    each: Values = {name: np.concatenate([part[name] for part in parts]) for name in known}
    return DrawsInfo(**_about(records), **each, mode="solve" if lawless else "sample", chain=np.concatenate(labels))


def _single(record: Info) -> dict[str, Array]:
    """Return what is known of each draw of chains by itself."""
    if isinstance(record, AnnealingInfo):
        return {name: values.ravel() for name, values in record.at_draws().items()}
    names = ("sweep", "energy", "acceptance") if isinstance(record, DrawsInfo) else ()
    return {name: getattr(record, name) for name in names if getattr(record, name) is not None}
