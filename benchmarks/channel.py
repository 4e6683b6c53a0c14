"""Cost of the output channel beside one `scipy.special.erfcx` per element: ``python -m benchmarks.channel``.

Requirement: (log Z, g, dg) together at beta = 0 and 2 cost at most 3 times erfcx on 10^6 elements, one thread both.
Every round times erfcx and then the channel; the ratio printed is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from scipy.special import erfcx

from solspace.measure.channels import power_channel, power_derivatives

LIMIT = 3.0


def seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def against(floor: Callable[[], Any], call: Callable[[], Any], rounds: int) -> tuple[float, float, float]:
    """Median seconds of both calls and the median of the ratio, over interleaved rounds."""
    floor(), call()
    times = np.array([(seconds(floor), seconds(call)) for _ in range(rounds)])
    return (*np.median(times, axis=0), float(np.median(times[:, 1] / times[:, 0])))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, help="the field is size x size")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    omega = 3.0 * np.random.default_rng(0).standard_normal((options.size, options.size))
    print(f"{omega.size:,} elements, x ~ 3 N(0, 1); times in ns per element; ratio to erfcx (limit {LIMIT:g})")
    print(f"{'call':<20}{'type':<9}{'beta':>5}{'threads':>9}{'erfcx':>9}{'call':>9}{'ratio':>8}")
    for threads in sorted({1, numba.config.NUMBA_NUM_THREADS}):
        numba.set_num_threads(threads)
        for dtype in (np.float64, np.float32):
            field = omega.astype(dtype)
            out = (np.empty_like(field), np.empty_like(field))
            calls = {
                "power_channel": lambda beta, x=field: power_channel(x, 1.0, beta),
                "power_derivatives": lambda beta, x=field, out=out: power_derivatives(x, 1.0, beta, out=out),
            }
            for name, call in calls.items():
                for beta in (0.0, 1.0, 2.0, 1.25, 4.0):
                    line = against(lambda: erfcx(omega), lambda call=call, beta=beta: call(beta), options.rounds)
                    floor, cost, ratio = line[0] / omega.size * 1e9, line[1] / omega.size * 1e9, line[2]
                    kind = np.dtype(dtype).name
                    print(f"{name:<20}{kind:<9}{beta:>5g}{threads:>9}{floor:>9.2f}{cost:>9.2f}{ratio:>8.2f}")


if __name__ == "__main__":
    main()
