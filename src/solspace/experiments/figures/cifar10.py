"""Appendix: CIFAR-10, cats and ships, N = 3072: instances solved after 1000 and 3000 sweeps."""

from __future__ import annotations

from solspace.experiments.figures.images import pixels, steps

SIZES = {
    "quick": {100: (steps(0.05, 0.2, 0.05), 6), 300: (steps(0.05, 0.25, 0.1), 4)},
    "paper": {1000: (steps(0.05, 0.5, 0.025), 100), 3000: (steps(0.05, 0.5, 0.025), 100)},
}
FIGURE = pixels("cifar10", "cifar10", SIZES)
