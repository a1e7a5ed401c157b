"""The simulator: the shipped law and the shipped pickers on servers that are a model.

Data flows one way: case (model) -> run -> result -> studies -> tables, files, plots.
"""
