"""This machine, for measurements: programs and their versions, processes, a private network."""
