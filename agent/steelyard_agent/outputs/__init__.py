"""Outputs of a status: ORCA load reports in a file, over HTTP and gRPC, and text for Prometheus."""
