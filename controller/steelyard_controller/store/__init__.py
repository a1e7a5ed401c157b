"""The state store: its interface, the stores in Redis and in memory, and the documents in them."""
