"""The generators of load: locust, wrk, and requests at a constant rate."""

from pathlib import Path

from steelyard_loadtest.generators.job import Job
from steelyard_loadtest.generators.load import Recorded
from steelyard_loadtest.generators.wrk import Wrk
from steelyard_loadtest.machine.errors import ProgramError
from steelyard_loadtest.machine.programs import Programs
from steelyard_loadtest.scenario.definition import Generator

__all__ = ["LOCUST_USERS", "OPEN_LOOP", "Job", "Running", "start", "why_missing"]

LOCUST_USERS = Path(__file__).with_name("locust_users.py")
OPEN_LOOP = Path(__file__).with_name("open_loop.py")

Running = Recorded | Wrk
"""A load that was started."""


def why_missing(generator: Generator, programs: Programs) -> str | None:
    """Return why a generator cannot run here and the remedy; None if it can.

    Locust and the open loop come with this package.
    """
    missing = generator == "wrk" and not programs.wrk
    return "wrk is not installed (apt-get install wrk)" if missing else None


def start(job: Job) -> Running:
    """Start a load. Its files overwrite the previous ones in the job's folder. Raises ProgramError."""
    if missing := why_missing(job.generator, job.programs):
        raise ProgramError(missing)
    job.folder.mkdir(parents=True, exist_ok=True)
    if job.generator == "wrk":
        return Wrk(job)
    program = LOCUST_USERS if job.generator == "locust" else OPEN_LOOP
    return Recorded(job, program, f"the generator {job.generator}", job.cuts_s)
