"""Sweeps: a typed spec becomes tasks, tasks run anywhere, results land in a store and survive the run."""
