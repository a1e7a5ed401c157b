"""The faults, one at a time, each with its bounds."""
