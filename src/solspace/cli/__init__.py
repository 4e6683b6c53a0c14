"""The command line: options in, tables and files out."""

from solspace.cli.app import main

__all__ = ["main"]
