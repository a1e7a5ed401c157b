"""The data plane's benchmark: the cost of a proxied request, for ours, nginx, HAProxy and Envoy.

Data flows one way: contenders (proxies, servers, order) -> rig (compare's balancers, and wrk), session (I/O)
-> trials as in compare -> report, plot.
"""
