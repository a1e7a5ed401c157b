"""One HTTP question on a connection of its own (I/O)."""

import http.client
import json

from steelyard_loadtest.machine.errors import ProgramError


def ask(
    address: str,
    port: int,
    path: str,
    *,
    timeout_s: float,
    method: str = "GET",
    document: object = None,
    token: str | None = None,
) -> tuple[int, bytes]:
    """Return the status and body of an answer; `document` is sent as JSON. Raises ProgramError."""
    body = None if document is None else json.dumps(document)
    headers = {"Content-Type": "application/json"} if body else {}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    connection = http.client.HTTPConnection(address, port, timeout=timeout_s)
    try:
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        return response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        raise ProgramError(f"{address}:{port} does not answer {method} {path}: {error}") from None
    finally:
        connection.close()
