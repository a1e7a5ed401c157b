"""Fuzzing: malformed input for every decoder and for every port.

Data flows one way: target -> inputs -> outcomes -> tally -> page. Nothing found is 0 violations in
the inputs that were tried, whose number is printed; it is no proof.
"""
