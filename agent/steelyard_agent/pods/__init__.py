"""The pods of a Kubernetes node: the list of those to sample, and one agent for all of them."""
