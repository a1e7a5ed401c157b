"""WebSockets through the nginx under test: opened by an upgrade, open until one side hangs up."""

import contextlib
import socket
from typing import Self

from openresty.tests.nginx_process import Edge
from testing.waiting import PATIENCE_S

OPEN_S = 300  # longer than any test
LOCATION = """
    location /socket {
      proxy_pass http://web/; proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade;
    }
"""


class WebSockets:
    """Clients, each with a connection of its own; leaving the context closes the open ones."""

    def __init__(self) -> None:
        self.clients: dict[socket.socket, str] = {}

    def open(
        self, edge: Edge, count: int, path: str = "/socket", host: str = "127.0.0.1"
    ) -> list[socket.socket]:
        """Open some; `clients` then has the server of each."""
        opened = []
        for _ in range(count):
            client = socket.create_connection((host, edge.port), timeout=PATIENCE_S)
            upgrade = "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            client.sendall(f"GET {path}?body_s={OPEN_S} HTTP/1.1\r\nHost: x\r\n{upgrade}\r\n".encode())
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += client.recv(1) or b"\r\n\r\n"
            lines = head.decode().splitlines()
            assert lines[0] == "HTTP/1.1 101 Switching Protocols", lines
            self.clients[client] = next(line.split(": ")[1] for line in lines if line.startswith("X-Backend"))
            opened.append(client)
        return opened

    def at(self, server: str) -> list[socket.socket]:
        """Return the clients of a server."""
        return [client for client, name in self.clients.items() if name == server]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for client in self.clients:
            client.close()


def is_open(client: socket.socket) -> bool:
    """Tell whether the connection is open; neither side sends anything meanwhile."""
    client.setblocking(False)
    try:
        return client.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
    finally:
        client.settimeout(PATIENCE_S)


def still_open(clients: list[socket.socket]) -> int:
    """Count the open ones."""
    return sum(is_open(client) for client in clients)


def echoes(client: socket.socket) -> bool:
    """Tell whether the server echoes a message."""
    with contextlib.suppress(ConnectionError):
        client.sendall(b"ping")
        return client.recv(4) == b"ping"
    return False
