"""Moved to `checks`."""

from solspace.system.checks import unknown

__all__ = ["unknown"]
