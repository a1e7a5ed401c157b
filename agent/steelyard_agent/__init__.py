"""Steelyard's agent: reads how busy a server is and pushes it to Memcached."""
