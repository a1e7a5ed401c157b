"""The soak: constant load and churn for half an hour, and whether anything leaks.

Data flows one way: timetable (what is done when) -> session, churn, sampling (I/O) -> readings ->
leaks -> page, plot.
"""

from steelyard_resilience.soak.command import add_parser

__all__ = ["add_parser"]
