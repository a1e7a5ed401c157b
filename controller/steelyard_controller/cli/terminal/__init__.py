"""The terminal: styles, numbers, tables that never wrap, and the full screen of `steelyard watch`."""
