"""Envoy: endpoints with weights by EDS, traffic reports by LRS."""
