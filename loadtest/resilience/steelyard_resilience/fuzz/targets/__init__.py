"""Every decoder in Python, grouped by the writer of its input."""

from steelyard_resilience.fuzz.target import Target
from steelyard_resilience.fuzz.targets import (
    configuration,
    http_messages,
    kernel_files,
    memcached_values,
    redis_state,
)


def targets() -> tuple[Target, ...]:
    """Return all of them; raises SetupError without a checkout."""
    writers = (memcached_values, redis_state, http_messages, configuration, kernel_files)
    return tuple(target for writer in writers for target in writer.targets())
