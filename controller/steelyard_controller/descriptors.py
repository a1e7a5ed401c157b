"""How many descriptors this process may have. I/O only."""

import resource

# The API's 1000 connections, as many of the agent-check's, streams to a leader, and room for Redis and
# Memcached: who fills the ports must not keep a tick from its own connections.
ENOUGH = 4096


def raise_limit(enough: int = ENOUGH) -> int:
    """Raise the soft limit up to `enough`, as far as the hard one lets it, and return what it is now."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < enough:
        soft = enough if hard == resource.RLIM_INFINITY else min(enough, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return enough if soft == resource.RLIM_INFINITY else soft
