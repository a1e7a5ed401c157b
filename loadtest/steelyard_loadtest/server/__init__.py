"""The demo server: a small HTTP app with a CPU limit and burners, for unequal servers.

Run `python -m steelyard_loadtest.server --name server-1 --port 8101 --cpu-limit 0.15`.
"""
