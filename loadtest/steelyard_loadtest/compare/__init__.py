"""The comparison: every algorithm by real software, under the same load, side by side.

Data flows one way: scenario -> session (trials in the rig, I/O) -> measurements -> store -> figures ->
findings, page.
"""
