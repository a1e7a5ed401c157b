"""The pods of a Kubernetes node: which are to be sampled, and one agent that samples them all."""
