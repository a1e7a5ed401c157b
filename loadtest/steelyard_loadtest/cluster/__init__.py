"""A whole cluster on one machine, under supervisord: what `make up` and `make down` do."""

from steelyard_loadtest.cluster.command import add_parser

__all__ = ["add_parser"]
