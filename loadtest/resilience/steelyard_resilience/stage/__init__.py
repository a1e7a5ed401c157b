"""The whole cluster on one machine, each part on a host of its own: a network namespace."""
