"""Addresses, and the names in them: the controller resolves them, because a picker cannot."""
