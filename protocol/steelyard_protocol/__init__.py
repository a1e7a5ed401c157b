"""What agent, controller and nginx say to each other: keys, messages, signatures, and a Memcached client."""
