"""The REST API: `app` joins middleware and routes; they read outcomes of ticks, never Memcached."""
