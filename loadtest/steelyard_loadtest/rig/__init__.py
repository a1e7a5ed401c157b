"""What runs during a trial: servers, agents, and the balancer under test (I/O)."""
