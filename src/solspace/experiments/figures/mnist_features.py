"""Appendix: random linear features of MNIST, digits 3 and 8, with as many sweeps as features."""

from __future__ import annotations

from solspace.experiments.figures.images import projected, steps

SIZES = {
    "quick": {32: (steps(0.4, 1.6, 0.3), 30), 64: (steps(0.4, 1.6, 0.3), 20), 256: (steps(0.4, 1.2, 0.4), 8)},
    "paper": {
        32: (steps(0.2, 2.0, 0.1), 100),
        64: (steps(0.2, 2.0, 0.1), 100),
        1024: (steps(0.2, 1.4, 0.1), 100),
        2048: (steps(0.2, 1.4, 0.1), 100),
    },
}
FIGURE = projected("mnist-features", "mnist", SIZES)
