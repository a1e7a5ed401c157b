"""Servers from Kubernetes: Services and EndpointSlices are watched, and declare the upstreams they name."""
