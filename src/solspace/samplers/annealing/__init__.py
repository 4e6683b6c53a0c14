"""Annealed Metropolis: single flips while the potential, or the temperature, is lowered sweep by sweep."""
