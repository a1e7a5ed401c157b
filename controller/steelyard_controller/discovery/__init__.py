"""Servers from Kubernetes: watched Services and EndpointSlices declare the upstreams in their annotations."""
