"""Samples at finite n, a folder to each algorithm: localization, annealing, solving, and the marginals they share."""
