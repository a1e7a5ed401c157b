"""The whole local cluster under constant load, and one fault after the other.

Data flows one way: faults -> session (stage, load and poller, I/O) -> outcomes -> page, plot.
"""
