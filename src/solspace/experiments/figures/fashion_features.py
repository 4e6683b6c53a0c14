"""Appendix: random linear features of FashionMNIST, sandals and sneakers, with as many sweeps as features."""

from __future__ import annotations

from solspace.experiments.figures.images import projected
from solspace.experiments.figures.mnist_features import SIZES

FIGURE = projected("fashion-features", "fashion", SIZES)
