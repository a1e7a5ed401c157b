"""Figures of a comparison: from what was measured to what a page says of it. Pure."""
