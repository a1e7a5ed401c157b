"""What outlives a restart: its formats, the contract of a store, and the stores."""
