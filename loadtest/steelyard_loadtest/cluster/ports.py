"""Who listens on a port."""

import psutil


def holder(port: int) -> str | None:
    """Return who listens on a TCP port of this machine, for a person; None when nobody does."""
    for connection in psutil.net_connections(kind="tcp"):
        if connection.status != psutil.CONN_LISTEN or not connection.laddr or connection.laddr.port != port:
            continue
        if connection.pid is None:
            return "a process of another user"
        try:
            process = psutil.Process(connection.pid)
            return f"{process.name()} (pid {process.pid}: {' '.join(process.cmdline())[:80]})"
        except psutil.Error:
            return f"pid {connection.pid}"
    return None
