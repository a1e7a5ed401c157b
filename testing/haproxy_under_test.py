"""The HAProxy under test: the one on PATH, or the one in STEELYARD_HAPROXY."""

import os
from pathlib import Path

VARIABLE = "STEELYARD_HAPROXY"


def put_on_path(named: str) -> None:
    """Make the named HAProxy the first on PATH. Raises ValueError if there is none of that name."""
    program = Path(named).absolute()
    if program.name != "haproxy" or not os.access(program, os.X_OK) or program.is_dir():
        raise ValueError(f"{VARIABLE} is {named}, and no program called haproxy is there: name its file")
    folder = str(program.parent)
    if os.environ["PATH"].split(os.pathsep)[0] != folder:
        os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
