"""What is sampled: a `Target` is a prior on the weights, a potential on the stabilities, a temperature and a margin."""

from solspace.measure import potentials, priors
from solspace.measure.target import Target

__all__ = ["Target", "potentials", "priors"]
