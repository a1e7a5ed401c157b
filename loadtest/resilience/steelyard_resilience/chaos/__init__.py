"""The whole local cluster under constant load, and one fault after the other.

Data flows one way: faults -> session (stage, load and looks, I/O) -> outcomes -> page.
"""
