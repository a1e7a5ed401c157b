"""The reporter: a process beside a load balancer that cannot report its traffic itself."""
