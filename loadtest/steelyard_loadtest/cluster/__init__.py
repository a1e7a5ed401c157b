"""A whole cluster on one machine, for `make up` and `make down`."""
