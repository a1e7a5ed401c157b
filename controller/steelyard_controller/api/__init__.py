"""The REST API: reads the cycles' immutable outcomes, never Memcached."""
