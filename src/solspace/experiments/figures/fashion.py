"""Appendix: FashionMNIST, sandals and sneakers, N = 784: instances solved after 100 and 784 sweeps."""

from __future__ import annotations

from solspace.experiments.figures.images import pixels
from solspace.experiments.figures.mnist import SIZES

FIGURE = pixels("fashion", "fashion", SIZES)
