"""Measurements of a load, its servers and a balancer: plain values, and their order."""
