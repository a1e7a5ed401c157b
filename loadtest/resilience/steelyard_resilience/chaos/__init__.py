"""One fault after the other in the whole local cluster, under constant load.

Data flows one way: faults -> session (stage, load and looks, I/O) -> outcomes -> page.
"""
