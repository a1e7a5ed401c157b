"""What runs during a cell: servers, agents, and the balancer under test (I/O)."""
