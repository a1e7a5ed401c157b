"""Resilience tests: faults, half an hour of churn, and malformed input for every reader."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[3]
"""Faults, soaks and fuzzing need a checkout: they run its Lua and read its examples."""
