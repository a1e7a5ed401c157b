"""The messages between agent, controller and nginx, a Memcached client, and settings of all programs."""
