"""A stand-in for oauth2-proxy in front of a controller, for tests: a cookie identifies its users.

It behaves as oauth2-proxy 7 with --pass-basic-auth and --basic-auth-password. It sends Authorization: Basic
with the user and that password, X-Forwarded-User, -Email and -Preferred-Username, and strips the client's
own ones (--skip-auth-strip-headers, on by default); it passes on other headers.
"""

import base64
import contextlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

from testing.handler_server import serving

from ..processes import LOCAL

SENT = ("authorization", "x-forwarded-user", "x-forwarded-email", "x-forwarded-preferred-username")


@contextlib.contextmanager
def login_proxy(url: str, password: str) -> Iterator[str]:
    """Yield the URL of a proxy in front of a controller; the cookie `user` is the signed-in user."""

    class Handler(BaseHTTPRequestHandler):
        def _pass_on(self) -> None:
            user = self.headers.get("Cookie", "").partition("user=")[2]
            if not user:
                self._answer(302, {"Location": "https://login.example.org"}, b"")
                return
            kept = {
                name: value for name, value in self.headers.items() if name.lower() not in (*SENT, "host")
            }
            basic = base64.b64encode(f"{user}:{password}".encode()).decode()
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            answer = LOCAL.request(
                self.command,
                url + self.path,
                content=body,
                headers=kept
                | {
                    "Authorization": f"Basic {basic}",
                    "X-Forwarded-User": user,
                    "X-Forwarded-Email": user,
                    "X-Forwarded-Preferred-Username": user.partition("@")[0],
                },
            )
            self._answer(answer.status_code, {"Content-Type": answer.headers["content-type"]}, answer.content)

        do_GET = do_PATCH = do_PUT = do_DELETE = _pass_on

        def _answer(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"
