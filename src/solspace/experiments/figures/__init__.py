"""The figures of the paper and some beyond it; to add one, write its module, with a tuple `FIGURES`, and name it here."""

from __future__ import annotations

from importlib import import_module

from solspace.experiments.figures.figure import SIZES, Figure, Picture
from solspace.system.names import unknown

__all__ = ["FIGURES", "SIZES", "Figure", "Picture", "find"]

FIGURES = {
    "spherical-free-entropy": "spherical_free_entropy",
    "spherical-t-alpha": "t_alpha",
    "spherical-alpha-kappa": "spherical_alpha_kappa",
    "binary-t-alpha": "t_alpha",
    "binary-stabilities": "stabilities",
    "mcmc-comparison": "annealing",
    "spherical-stabilities": "stabilities",
    "binary-uniform": "binary_uniform",
    "asl-success": "asl_success",
    "tau-annealing": "annealing",
    "temperature-annealing": "annealing",
    "edge": "edge",
    "threshold-temperature": "threshold_temperature",
    "solvers": "solvers",
    "symmetric-t-alpha": "t_alpha",
    "symmetric-threshold": "symmetric_threshold",
    "symmetric-success": "symmetric_success",
    "mnist": "images",
    "mnist-features": "images",
    "fashion": "images",
    "fashion-features": "images",
    "cifar10": "images",
    "fair-on-images": "fair_on_images",
    "mixing": "mixing",
}
"""The module of each figure, by its name on the command line, in the paper's order."""


def find(name: str) -> Figure:
    """Return the figure called `name`.

    >>> find("mcmc-comparison").place
    'Fig. 3'
    """
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    (figure,) = (one for one in import_module(f"{__name__}.{FIGURES[name]}").FIGURES if one.name == name)
    return figure
