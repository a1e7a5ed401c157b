"""The demo server: a small HTTP app whose CPU can be limited and burnt, so that servers are unequal.

Run `python -m steelyard_loadtest.server --name server-1 --port 8101 --cpu-limit 0.15`.
"""
