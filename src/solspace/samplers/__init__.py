"""Finite n: approximate message passing, stochastic localization, annealed Metropolis."""
