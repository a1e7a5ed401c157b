"""HAProxy: its runtime socket, what it counts, and what it is told."""
