"""Stochastic localization: an SDE for a field, with the means of the weights as its drift."""
