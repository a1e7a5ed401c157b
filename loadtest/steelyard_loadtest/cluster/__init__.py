"""A whole cluster on one machine, under supervisord: what `make up` and `make down` do."""
