"""Starts the generator that a job asks for."""

from collections.abc import Callable

from steelyard_loadtest.lab.generators import recorded, siege, wrk
from steelyard_loadtest.lab.generators.job import Job, Running
from steelyard_loadtest.lab.scenario.model import Generator
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.found import Found

STARTS: dict[Generator, Callable[[Job], Running]] = {
    "locust": recorded.locust,
    "open": recorded.open_loop,
    "siege": siege.start,
    "wrk": wrk.start,
}


def why_missing(generator: Generator, found: Found) -> str | None:
    """Say why a generator cannot run here and what would help; None when it can.

    Locust and the open loop come with this package.
    """
    if generator == "siege" and not found.siege:
        return "siege is not installed (apt-get install siege)"
    if generator == "wrk" and not found.wrk:
        return "wrk is not installed (apt-get install wrk)"
    return None


def start(job: Job) -> Running:
    """Start a load. Its files go to the job's folder, over those of the load before. Raises ProgramError."""
    missing = why_missing(job.generator, job.found)
    if missing is not None:
        raise ProgramError(missing)
    job.folder.mkdir(parents=True, exist_ok=True)
    return STARTS[job.generator](job)
