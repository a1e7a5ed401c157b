"""Leader election by a lease, the takeover by a new leader, and the loop that ticks under the lease."""
