"""The figures of the paper and extensions of it, by name and in the paper's order."""

from __future__ import annotations

from importlib import import_module

from solspace.experiments.figures.figure import FIGURES, SIZES, Figure, Picture, find

__all__ = ["FIGURES", "SIZES", "Figure", "Picture", "find"]

for _module in ("paper", "extensions", "images"):  # each registers its figures
    import_module(f"{__name__}.{_module}")
