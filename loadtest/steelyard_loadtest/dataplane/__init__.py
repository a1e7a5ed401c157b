"""The data plane's benchmark: what a proxied request costs, ours beside nginx, HAProxy and Envoy.

Data flows one way: found (which programs are here) -> plan (who, at how many
servers, in which order) -> render (their files) -> process, wrk (I/O) ->
records -> summary -> table, verdict, plot, page.
"""

from steelyard_loadtest.dataplane.command import add_parser

__all__ = ["add_parser"]
