"""Means and variances of the weights, given a field: message passing."""
