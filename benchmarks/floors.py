"""What the machine can do at best, one core: multiply matrices, move memory, evaluate a special function."""

from __future__ import annotations

import numpy as np
from scipy.special import erfcx

from benchmarks.timing import Table, Times

SIZE = 1536


def table(quick: bool = False) -> Table:
    """Return the floors."""
    rng = np.random.default_rng(0)
    double = rng.standard_normal((2, SIZE, SIZE))
    single = double.astype(np.float32)
    words = (32 if quick else 128) * 2**17  # 32 or 128 MiB: beyond every cache
    source, copy = np.zeros(words), np.ones(words)
    x = 3 * rng.standard_normal(10**6)
    times = Times(
        {
            "float32": lambda: single[0] @ single[1],
            "float64": lambda: double[0] @ double[1],
            "copy": lambda: np.copyto(copy, source),
            "erfcx": lambda: erfcx(x),
        },
        5 if quick else 15,
    )
    flops = 2 * SIZE**3
    found = Table(
        "Floors of this machine",
        "NumPy's BLAS.",
        ("what", "time", "rate"),
    )
    for name in ("float32", "float64"):
        found.add(f"matrix product {SIZE}³, {name}", times[name], f"{flops / times[name].median / 1e9:.0f} GFLOP/s")
    moved = 2 * source.nbytes
    found.add(f"copy {source.nbytes >> 20} MiB", times["copy"], f"{moved / times['copy'].median / 1e9:.1f} GB/s moved")
    found.add("scipy.special.erfcx, 10⁶ elements", times["erfcx"], f"{times['erfcx'].median * 1e3:.2f} ns an element")
    return found
