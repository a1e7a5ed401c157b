"""Bytes that nobody should send, to every port, and as the answer to everything that is asked."""
