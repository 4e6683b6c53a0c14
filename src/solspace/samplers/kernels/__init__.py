"""Compiled inner loops of the samplers."""
