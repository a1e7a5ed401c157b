"""What agent, controller and nginx say to each other, a Memcached client, and what programs do alike."""
