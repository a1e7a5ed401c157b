"""Every decoder in Python, by whoever writes what it reads."""

from steelyard_resilience.fuzz.target import Target
from steelyard_resilience.fuzz.targets import (
    configuration,
    http_messages,
    kernel_files,
    memcached_values,
    redis_state,
)


def targets() -> tuple[Target, ...]:
    """Return all of them; raises SetupError where there is no checkout."""
    return (
        *memcached_values.targets(),
        *redis_state.targets(),
        *http_messages.targets(),
        *configuration.targets(),
        *kernel_files.targets(),
    )
