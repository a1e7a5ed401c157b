"""The clocks of hosts, which libfaketime lets be wrong (I/O)."""

from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.stage.plan import Place

LIBRARY = "faketime/libfaketime.so.1"

FOLDERS = (Path("/usr/lib"), Path("/usr/lib64"), Path("/usr/local/lib"))
"""Where it lies, on Debian in a folder that is named after the machine's architecture."""


def library() -> Path:
    """Return libfaketime's path. Raises SetupError."""
    for folder in FOLDERS:
        for path in (folder / LIBRARY, *sorted(folder.glob(f"*/{LIBRARY}"))):
            if path.exists():
                return path
    raise SetupError("libfaketime is not installed; it steps clocks: apt-get install faketime")


def step(place: Place, host: str, seconds: float) -> None:
    """Set a host's clock so far from the true time; its daemons follow within a second."""
    path = place.clock(host)
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f".{host}")
    fresh.write_text(f"{seconds:+f}s\n")
    fresh.replace(path)  # in one step: a daemon may read it at any moment
