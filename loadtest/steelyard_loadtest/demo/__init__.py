"""The demo: the same load on a running cluster twice, by Steelyard's weights and by equal static ones.

Data flows one way: load and cluster (I/O) -> records -> aggregate -> findings, table, files, plot.
"""

from steelyard_loadtest.demo.command import add_parser

__all__ = ["add_parser"]
