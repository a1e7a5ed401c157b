"""The data plane's benchmark: what a proxied request costs, ours beside nginx, HAProxy and Envoy.

Data flows one way: contenders (who, before which servers, in which order) -> rig (compare's balancers,
and wrk), session (I/O) -> trials as compare has them -> report, plot.
"""
