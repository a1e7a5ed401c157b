"""The simulator: the shipped laws and the shipped pickers on modelled servers.

Data flows one way: case (model) -> run -> result -> studies -> tables, files, plots.
"""
