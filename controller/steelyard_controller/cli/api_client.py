"""The HTTP client for the controllers' REST API: the first controller that answers. I/O only.

`error_answers` decides the meaning of an error. Proxies and redirects are not
followed, so that the token goes only to the given URLs; https uses
the system's certificates. The token that a controller of this machine has made
is used without a flag, and goes with changes to this machine alone.
"""

import os
import queue
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx
from steelyard_protocol import secret_file

from steelyard_controller import __version__, generated_token
from steelyard_controller.cli import connection_flags, error_answers
from steelyard_controller.cli.api_documents import Document
from steelyard_controller.cli.connection_flags import Connection
from steelyard_controller.cli.exit_status import Exit, Failure, UsageError

D = TypeVar("D", bound=Document)

_THIS_MACHINE = ("127.0.0.1", "::1", "localhost")

AUDIT = "/v1/audit"

# The stream has a comment every 10 s; this is two missing ones and a bit.
SILENCE_S = 25.0


@dataclass(frozen=True, slots=True)
class Answer(Generic[D]):
    """A decoded document and its bytes."""

    document: D
    body: bytes


class Controllers:
    """The controllers at the given URLs; the last one to answer is asked first."""

    def __init__(self, connection: Connection) -> None:
        token = connection.token
        if connection.token_file is not None:
            token = _token(connection.token_file)
        headers = {"User-Agent": f"steelyard/{__version__}", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._urls = connection.urls
        self._token = token
        self.timeout_s = connection.timeout_s
        """The bytes of an answer."""
        secure = any(url.startswith("https:") for url in connection.urls)
        self._http = httpx.Client(
            headers=headers,
            timeout=connection.timeout_s,
            # Making a context reads all certificates of the system.
            verify=ssl.create_default_context() if secure else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
            trust_env=False,
        )

    @property
    def url(self) -> str:
        """Return the URL of the last controller that answered, or the first one."""
        return self._urls[0]

    def token_for(self, url: str) -> str | None:
        """Return the given token, or the one that a controller of this machine has made."""
        if self._token is None and httpx.URL(url).host in _THIS_MACHINE:
            with suppress(OSError, secret_file.SecretFileError):
                return generated_token.read(generated_token.path(os.environ))
        return self._token

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, model: type[D], path: str, **parameters: str | float) -> Answer[D]:
        """Get a document; raise `Failure`."""
        return self._read(model, path, self.send("GET", path, params=parameters or None))

    def patch(self, model: type[D], path: str, patch: Mapping[str, Any]) -> Answer[D]:
        """Merge `patch` into a document and return the result; raise `Failure`."""
        return self._read(model, path, self.send("PATCH", path, json=patch))

    @contextmanager
    def stream(self, path: str, **parameters: str) -> Iterator[tuple[str, httpx.Response]]:
        """Yield the URL and the open stream of the first controller with one; raise `Failure`."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        timeout = httpx.Timeout(self.timeout_s, read=max(SILENCE_S, self.timeout_s))
        with closing(
            self.send("GET", path, headers=headers, stream=True, params=parameters or None, timeout=timeout)
        ) as answer:
            yield self.url, answer

    def send(
        self,
        method: str,
        path: str,
        *,
        headers: Mapping[str, str] | None = None,
        stream: bool = False,
        **parts: Any,  # noqa: ANN401
    ) -> httpx.Response:
        """Return the first 2xx answer of a controller; raise `Failure`. Requests must be idempotent.

        `parts` are further parts of `httpx`'s request, such as `json` and `params`.
        """
        silent: list[str] = []
        unable: Failure | None = None
        for url in self._urls:
            # Reading needs no token, except for the audit log, and a tunnel's port on this machine may lead
            # to another's controller.
            token = None if method == "GET" and path != AUDIT else self.token_for(url)
            authorization = {} if token is None else {"Authorization": f"Bearer {token}"}
            try:
                request = self._http.build_request(
                    method, url + path, headers={**authorization, **(headers or {})}, **parts
                )
                answer = self._answer(request, stream=stream)
                if answer.is_success:
                    self._prefer(url)
                    return answer
                answer.read()
            except (httpx.TransportError, httpx.DecodingError, httpx.InvalidURL) as error:
                silent.append(f"{url}: {_error_text(error, self.timeout_s)}")
                continue
            failure = _failure(url, answer)
            if failure.status != Exit.UNREACHABLE:
                self._prefer(url)
                raise failure
            unable = unable or failure
        more = "start one, or name it with --url"
        raise unable or Failure(Exit.UNREACHABLE, f"no controller answers at {'; '.join(silent)}; {more}")

    def _answer(self, request: httpx.Request, *, stream: bool) -> httpx.Response:
        """Return the whole answer, or the beginning of a stream; raise `httpx.ReadTimeout` if it is late."""
        # In a thread, because httpx bounds neither the sum of the waits nor the lookup of a name.
        outcomes: queue.SimpleQueue[httpx.Response | Exception] = queue.SimpleQueue()

        def ask() -> None:
            try:
                outcomes.put(self._http.send(request, stream=stream))
            except Exception as error:
                outcomes.put(error)

        threading.Thread(target=ask, daemon=True).start()
        try:
            outcome = outcomes.get(timeout=max(SILENCE_S, self.timeout_s) if stream else self.timeout_s)
        except queue.Empty:
            raise httpx.ReadTimeout("the answer is not whole in time", request=request) from None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _prefer(self, url: str) -> None:
        self._urls = (url, *(each for each in self._urls if each != url))

    def _read(self, model: type[D], path: str, answer: httpx.Response) -> Answer[D]:
        return Answer(error_answers.document(model, answer.content, self.url, path), answer.content)


def path(*parts: str) -> str:
    """Return the path below /v1 of these parts."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def _failure(url: str, answer: httpx.Response) -> Failure:
    kind = answer.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/problem+json":
        return error_answers.not_a_controller(url, answer.status_code)
    reads = answer.request.method == "GET"
    return error_answers.failure(url, answer.status_code, answer.content, reads=reads)


def _error_text(error: Exception, timeout_s: float) -> str:
    if isinstance(error, httpx.TimeoutException):
        return f"no answer within {timeout_s:g} s"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror.lower()
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__


def _token(file: Path) -> str:
    try:
        text = secret_file.read(file, "token", bytes)
    except secret_file.SecretFileError as error:
        raise UsageError(str(error)) from None
    return connection_flags.as_token(text.decode("ascii", "replace"), f"the token file {file}")
