"""Random streams: one seed for a call, one independent stream for each of its parts.

Each chain or sample draws from its own stream, derived from the call's seed and the part's index alone: sample 3 does not
depend on how many samples run beside it, on which core it runs, or on what was interrupted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

RNG: TypeAlias = "int | np.random.Generator | np.random.SeedSequence | None"


def seed_sequence(rng: RNG) -> np.random.SeedSequence:
    """Return the seed sequence that `rng` stands for: a seed, a `SeedSequence`, fresh entropy (None), or a `Generator`.

    A `Generator` gives up 128 bits of its stream: two calls with the same generator differ, and a replayed program repeats.
    """
    if isinstance(rng, np.random.SeedSequence):
        return rng
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence([int(word) for word in rng.integers(0, 2**32, size=4)])
    if rng is None:
        return np.random.SeedSequence()
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.SeedSequence(int(rng))
    raise ValueError(
        f"rng must be a non-negative integer seed, a numpy Generator or SeedSequence, or None; got {rng!r}."
    )


def seeds_for(rng: RNG | Sequence[RNG] | np.ndarray, count: int) -> list[np.random.SeedSequence]:
    """Return a seed sequence for each of `count` problems: from as many seeds, or from one for all.

    >>> [seeds.entropy for seeds in seeds_for([3, 4], 2)], len(seeds_for(0, 5))
    ([3, 4], 5)
    """
    if isinstance(rng, (Sequence, np.ndarray)):
        if len(rng) != count:
            raise ValueError(f"rng must hold a seed for each of the {count} problems; got {len(rng)}.")
        return [seed_sequence(seed) for seed in rng]
    together = seed_sequence(rng)
    return [child(together, number) for number in range(count)]


def child(seeds: np.random.SeedSequence, *key: int) -> np.random.SeedSequence:
    """Return the stream of `seeds` at `key`: the same for the same key, whatever was spawned before."""
    return np.random.SeedSequence(entropy=seeds.entropy, spawn_key=(*seeds.spawn_key, *key), pool_size=seeds.pool_size)


def generator(rng: RNG, *key: int) -> np.random.Generator:
    """Return the generator of the stream at `key` of `rng`.

    >>> int(generator(0, 3).integers(100)) == int(generator(0, 3).integers(100))
    True
    """
    if isinstance(rng, np.random.Generator) and not key:
        return rng
    return np.random.Generator(np.random.PCG64DXSM(child(seed_sequence(rng), *key)))
