"""A whole cluster on one machine: what `make up` and `make down` do."""
