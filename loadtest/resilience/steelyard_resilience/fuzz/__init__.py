"""Fuzzing: malformed input for every decoder and for every port.

Data flows one way: target -> inputs -> outcomes -> tally -> page. A result of 0 violations holds for the
printed number of inputs; it is no proof.
"""
