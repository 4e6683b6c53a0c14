"""Moved to `checks`."""

from solspace.system.checks import install

__all__ = ["install"]
