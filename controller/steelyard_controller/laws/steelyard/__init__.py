"""The default law: capacity from the cost of a request and others' load. See docs/control-law.md."""

from steelyard_controller.laws.steelyard.steelyard_law import Steelyard

__all__ = ["Steelyard"]
