"""Every decoder in Python, by whoever writes what it reads."""

from steelyard_loadtest.fuzz.model import Target
from steelyard_loadtest.fuzz.targets import asked, kernel, settings, state, trees, wire


def targets() -> tuple[Target, ...]:
    """Return all of them; raises SetupError where there is no checkout."""
    return (
        *wire.targets(),
        *state.targets(),
        *asked.targets(),
        *settings.targets(),
        *kernel.targets(),
        *trees.targets(),
    )
