"""What Steelyard withstands: faults, half an hour of churn, and malformed input for every reader."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
"""Faults, soaks and fuzzing are of a checkout: they run its Lua and read its examples."""
