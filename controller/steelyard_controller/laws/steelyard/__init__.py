"""The default law: capacity from what a request costs and what load is not ours. See docs/control-law.md."""

from steelyard_controller.laws.steelyard.steelyard_law import Steelyard

__all__ = ["Steelyard"]
