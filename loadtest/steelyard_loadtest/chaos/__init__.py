"""The whole local cluster under constant load, and one fault after the other.

Data flows one way: faults (the catalogue) -> session, trial (stage, load and
observer, I/O) -> records -> judge -> table, plots, files.
"""

from steelyard_loadtest.chaos.command import add_parser

__all__ = ["add_parser"]
