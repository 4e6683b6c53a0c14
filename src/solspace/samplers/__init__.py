"""Samples of the target at finite n, one folder to each algorithm: marginals, localization, annealing."""
