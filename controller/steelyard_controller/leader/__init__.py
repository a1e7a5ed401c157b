"""Leader election by a lease, what a new leader takes over, and the loop that ticks while it leads."""
