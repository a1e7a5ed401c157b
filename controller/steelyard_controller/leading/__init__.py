"""Who leads: the lease, what a new leader takes up, and how long it reigns."""
