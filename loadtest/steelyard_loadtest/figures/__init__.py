"""Figures of a comparison: from what was measured to what a report says of it. Pure."""
