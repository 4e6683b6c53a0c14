"""Chains that judge themselves on real images, at scale: what fair samples look like, where chains can tell.

    SOLSPACE_DATA=/path/to/images python benchmarks/mixing.py --device gpu --out mixing        # 33 runs, minutes on an H200
    python benchmarks/mixing.py --only mnist-0.6,fashion-0.5 --exchange --chains 64 --device gpu --out exchange
    python benchmarks/mixing.py --only mnist-0.3 --chains 8 --extra 400                         # a look, on the processor

Every run is an instance that `instance(key)` makes again from its key, such as "mnist-0.3-1" (pixels, load .3, number 1)
or "mnist400-0.5-0" (400 random features). A line of JSON for each on the standard output and in OUT/mixing.jsonl, and its
arrays in OUT/KEY.npz: `mean` (n,) of the weights and its error `mean_error`, `overlaps` of pairs of chains at their last
draws, `last` (chains, n) the last draws of up to 256 chains, `energy` (chains,) ΣU averaged over draws. Runs that are
there already are left out: stop it at any time.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import solspace as ss
from solspace.experiments import images

LOADS = {
    "mnist": (0.2, 0.3, 0.4, 0.5),
    "fashion": (0.2, 0.3, 0.4),
    "mnist400": (0.3, 0.5, 0.8),
    "cifar10": (0.1,),
}
KEPT = 256
"""Chains whose last draws are kept."""


def instance(key: str) -> ss.Perceptron:
    """Return the problem that a key stands for, the same everywhere; "digits-0.3-0" is scikit-learn's, always there."""
    name, features, alpha, number = re.fullmatch(r"([a-z]+(?:10)?)(\d*)-([\d.]+)-(\d+)", key).groups()  # type: ignore[union-attr]
    return images.instance(name, float(alpha), int(number), int(features) if features else None)


def keys(instances: int) -> list[str]:
    """Return the keys of all runs, the first instance of each point before the second."""
    points = [f"{name}-{alpha}" for name, loads in LOADS.items() for alpha in loads]
    return [f"{point}-{number}" for number, point in product(range(instances), points)]


def run(key: str, options: dict[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return the numbers and the arrays of one instance."""
    problem = instance(key)
    start = time.perf_counter()
    samples = ss.anneal(problem, rng=int.from_bytes(key.encode()), progress=False, **options)
    seconds, report = time.perf_counter() - start, ss.diagnose(samples)
    weights = samples.by_chain()
    late = weights[:, weights.shape[1] // 2 :]
    chains = late.mean(axis=1, dtype=np.float32)
    last = weights[:KEPT, -1]
    gram = last.astype(np.float32) @ last.T.astype(np.float32) / problem.n
    arrays = {
        "mean": chains.mean(axis=0), "mean_error": chains.std(axis=0, ddof=1) / np.sqrt(len(chains)), "last": last,
        "overlaps": gram[np.triu_indices(len(last), 1)], "energy": samples.info.at_draws()["energy"].mean(axis=1),
    }  # fmt: skip
    numbers = {
        "key": key, "n": problem.n, "m": problem.m, **options, "seconds": round(seconds, 2), "fair": report.fair,
        "solved_last": float(samples.solved.reshape(len(weights), -1)[:, -1].mean()), "verdict": report.verdict,
        "report": report.to_dict(),
    }  # fmt: skip
    if samples.info.ladder is not None:
        numbers |= {"rungs": len(samples.info.ladder), "round_trips": float(samples.info.round_trips.mean())}
    return numbers, arrays


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help="points or keys, as in mnist-0.3,fashion-0.4-1; all unless given")
    parser.add_argument("--instances", type=int, default=3, help="of each point")
    parser.add_argument("--chains", type=int, default=2112)
    parser.add_argument("--sweeps", type=int, default=1000, help="of the schedule")
    parser.add_argument("--extra", type=int, default=4000, help="sweeps after it, by the heat bath")
    parser.add_argument("--draws", type=int, default=40, help="of each chain")
    parser.add_argument("--exchange", action="store_true", help="exchange replicas with earlier stages")
    parser.add_argument("--rungs", type=int, help="of the exchange; found unless given")
    parser.add_argument("--device", default="cpu", help="cpu, gpu or auto")
    parser.add_argument("--out", type=Path, default=Path("mixing"), help="folder for the results")
    given = parser.parse_args()
    thin = max(1, given.extra // given.draws)
    options = {
        "n_chains": given.chains, "n_sweeps": given.sweeps, "n_extra": given.extra, "thin": thin,
        "exchange": given.exchange, "n_rungs": given.rungs, "device": given.device,
    }  # fmt: skip
    wanted = keys(given.instances)
    if given.only:
        asked = given.only.split(",")
        wanted = [f"{one}-{i}" if one.count("-") == 1 else one for one in asked for i in range(given.instances)]
    given.out.mkdir(parents=True, exist_ok=True)
    for key in dict.fromkeys(wanted):
        file = given.out / f"{key}.npz"
        if file.exists():
            continue
        numbers, arrays = run(key, options)
        line = json.dumps(numbers)
        with open(given.out / "mixing.jsonl", "a", encoding="utf-8") as lines:
            lines.write(line + "\n")
        np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
        print(line, flush=True)


if __name__ == "__main__":
    main()
