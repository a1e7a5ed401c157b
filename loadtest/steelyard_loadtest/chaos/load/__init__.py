"""The load of a run with faults: a constant rate from a process of its own, every answer checked."""
