"""Steelyard's controller: turns samples into weight tables."""

from importlib.metadata import version

__version__ = version("steelyard-controller")
