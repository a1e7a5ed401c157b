"""Scenarios: the compared algorithms, their servers and their load."""
