"""The faults: what goes wrong, one at a time, and what each may cost."""
