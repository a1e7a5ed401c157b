"""The demo: the same load on a running cluster twice, by Steelyard's weights and by equal static ones.

Data flows one way: load and cluster (I/O) -> records -> figures, plot.
"""
