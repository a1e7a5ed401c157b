"""The soak: constant load and churn for half an hour, and whether anything leaks.

Data flows one way: plan (what is done when) -> steps (of churn) -> session, churn, load,
sampling, look (I/O) -> records -> growth -> verdict -> table, panels, plot.
"""

from steelyard_loadtest.soak.command import add_parser

__all__ = ["add_parser"]
