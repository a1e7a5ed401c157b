"""The time to live of a value in Memcached, by a socket: pymemcache 3.5 cannot send this command."""

import socket

from testing.waiting import PATIENCE_S


def ttl_s(port: int, key: str) -> int:
    """Return the seconds until a value expires; 0: it is gone."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as connection:
        connection.sendall(f"mg {key} t\r\n".encode())
        said = connection.makefile("rb").readline()
    return 0 if said.startswith(b"EN") else int(said.removeprefix(b"HD t"))
