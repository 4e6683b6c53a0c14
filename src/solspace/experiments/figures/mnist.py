"""Appendix: MNIST, digits 3 and 8, N = 784: instances solved after 100 and 784 sweeps."""

from __future__ import annotations

from solspace.experiments.figures.images import pixels, steps

SIZES = {
    "quick": {100: (steps(0.2, 0.8, 0.1), 12), 784: (steps(0.3, 0.9, 0.2), 6)},
    "paper": {100: (steps(0.1, 1.0, 0.05), 100), 784: (steps(0.1, 1.0, 0.05), 100)},
}
FIGURE = pixels("mnist", "mnist", SIZES)
