"""Cost of the output channel beside one `scipy.special.erfcx` per element: ``python -m benchmarks.channel``.

Requirement: (log Z, g, dg) together at beta = 0 and 2 cost at most 3 times erfcx on 10^6 elements, one thread both.
Every round times erfcx and then the channel; the ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse

import numba
import numpy as np
from scipy.special import erfcx

from benchmarks.timing import Table, Times
from solspace.measure.channels import power_channel
from solspace.numerics.power import gaussian_power_derivatives

LIMIT = 3.0
BETAS = (0.0, 2.0, 1.25)


def table(size: int = 1000, rounds: int = 15, betas: tuple[float, ...] = BETAS, threads: int = 1) -> Table:
    """Return nanoseconds an element, on a field of size × size."""
    numba.set_num_threads(threads)
    omega = 3.0 * np.random.default_rng(0).standard_normal((size, size))
    found = Table(
        "The output channel",
        f"Nanoseconds an element, {omega.size:,} fields x ~ 3 N(0, 1) at once, {threads} thread(s); in brackets the ratio to "
        f"`scipy.special.erfcx`, timed in turns, which should be at most {LIMIT:g}.",
        ("call", "type", *(f"β = {beta:g}" for beta in betas)),
    )
    for dtype in (np.float64, np.float32):
        x = omega.astype(dtype)
        out = (np.empty_like(x), np.empty_like(x))
        calls = {
            "log Z, g, g'": lambda beta, x=x: power_channel(x, 1.0, beta),
            "g, g'": lambda beta, x=x, out=out: gaussian_power_derivatives(x, 1.0, beta, out=out),
        }
        for name, call in calls.items():
            cells = []
            for beta in betas:
                times = Times({"floor": lambda: erfcx(omega), "own": lambda c=call, b=beta: c(b)}, rounds)
                cells.append(f"{times['own'].median / omega.size * 1e9:.1f} ({times.ratio('own', 'floor'):.2f})")
            found.add(name, np.dtype(dtype).name, *cells)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1000, help="the field is size x size")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    for threads in sorted({1, numba.config.NUMBA_NUM_THREADS}):
        print(table(options.size, options.rounds, threads=threads).markdown())


if __name__ == "__main__":
    main()
