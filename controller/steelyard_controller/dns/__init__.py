"""Host names in peers' addresses: the controller resolves them, because a picker in nginx cannot."""
