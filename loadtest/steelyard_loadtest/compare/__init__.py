"""The load lab: every algorithm by real software, under the same load, side by side.

Data flows one way: scenario -> session (rig and generators, I/O) -> records ->
store -> figures -> findings, report.
"""
