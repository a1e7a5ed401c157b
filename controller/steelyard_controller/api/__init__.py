"""The REST API: `app` puts middleware and routes together; they read outcomes of ticks, never Memcached."""
