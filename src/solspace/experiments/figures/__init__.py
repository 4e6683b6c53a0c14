"""The figures of the paper, one module each; to add one, write its module and name it here."""

from __future__ import annotations

from importlib import import_module

from solspace.experiments.figures.figure import SIZES, Figure, Picture
from solspace.system.names import unknown

__all__ = ["FIGURES", "SIZES", "Figure", "Picture", "find"]

FIGURES = (
    "spherical-free-entropy",
    "spherical-t-alpha",
    "spherical-alpha-kappa",
    "binary-t-alpha",
    "binary-stabilities",
    "mcmc-comparison",
    "spherical-stabilities",
    "binary-uniform",
    "asl-success",
    "tau-annealing",
    "temperature-annealing",
    "edge",
    "threshold-temperature",
    "solvers",
    "mnist",
    "mnist-features",
    "fashion",
    "fashion-features",
    "cifar10",
)
"""Names on the command line, in the paper's order; the module of `tau-annealing` is `tau_annealing`."""


def find(name: str) -> Figure:
    """Return the figure called `name`.

    >>> find("mcmc-comparison").place
    'Fig. 3'
    """
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return import_module(f"{__name__}.{name.replace('-', '_')}").FIGURE
