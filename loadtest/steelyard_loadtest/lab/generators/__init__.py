"""What makes the load: locust, siege, wrk, and requests at a constant rate."""

from steelyard_loadtest.lab.generators.job import Job, Running
from steelyard_loadtest.lab.generators.start import start, why_missing

__all__ = ["Job", "Running", "start", "why_missing"]
