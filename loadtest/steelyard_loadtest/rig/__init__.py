"""The running parts of a trial: servers, agents, and the balancer under test (I/O)."""
