"""HAProxy: its runtime socket, its counters, and the commands to it."""
