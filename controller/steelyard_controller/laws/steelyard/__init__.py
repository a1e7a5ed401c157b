"""The default law: capacity estimated from requests per busy second. See docs/control-law.md."""

from steelyard_controller.laws.steelyard.law import Steelyard
from steelyard_controller.laws.steelyard.parameters import SteelyardParameters

__all__ = ["Steelyard", "SteelyardParameters"]
