"""Steelyard's controller: turns samples into weight tables."""
