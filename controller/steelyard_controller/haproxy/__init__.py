"""HAProxy's agent-check: HAProxy asks for each server's weight over TCP."""
