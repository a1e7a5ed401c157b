"""Scenarios: what is compared, on which servers, under which load."""
