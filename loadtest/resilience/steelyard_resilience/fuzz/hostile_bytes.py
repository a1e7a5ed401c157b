"""Correct and wrong requests and answers, the seeds of attacks on ports. Pure."""

HOST = b"Host: 127.0.0.1\r\n"

# The start of a TLS handshake and of HTTP/2, and extremes of HTTP/1.
ALIEN = (
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x7f" * 60,
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
    b"\x00" * 300,
    b"\r\n" * 200,
    b"A" * 70_000,
    b"GET /\r\n",
    b"get version\r\n",
)


def http_requests(path: bytes) -> tuple[bytes, ...]:
    """Return requests for a path, some correct and some half correct."""
    head = b"GET " + path + b" HTTP/1.1\r\n" + HOST
    put = b"PUT " + path + b" HTTP/1.1\r\n" + HOST
    chunked = put + b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    end = b"Connection: close\r\n\r\n"
    return (
        head + end,
        b"HEAD " + path + b" HTTP/1.1\r\n" + HOST + end,
        b"GET " + path + b" HTTP/1.0\r\n\r\n",
        b"POST " + path + b" HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n" + end + b"hello",
        put + b"Content-Type: application/json\r\nContent-Length: 11\r\n" + end + b'{"law":"x"}',
        chunked + end + b"5\r\nhello\r\n0\r\n\r\n",
        chunked + end + b"ffffffffffffffffffffffff\r\nx",
        chunked + end + b"zz\r\nhello\r\n0\r\n\r\n",
        head + b"Content-Length: -1\r\n" + end,
        head + b"Content-Length: 99999999999999999999\r\n" + end,
        head + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n" + end + b"0\r\n\r\n",
        head + b"Upgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        head + b"Expect: 100-continue\r\nContent-Length: 10\r\n" + end,
        head + b"Authorization: Bearer \xff\xfe\r\nX: \x01\r\n" + end,
        head + b"X-Forwarded-For: 127.0.0.1\r\nRange: bytes=9-1,5-\r\nAccept-Encoding: \xc3\r\n" + end,
        head + b"X: " + b"y" * 9000 + b"\r\n" + end,
        head + b"".join(b"X%d: y\r\n" % number for number in range(300)) + end,
        b"GET " + path + b"?" + b"a=%00&" * 2000 + b" HTTP/1.1\r\n" + HOST + end,
        b"GET " + path + b"/../../%2e%2e/etc/passwd HTTP/1.1\r\n" + HOST + end,
        b"GET http://evil.example" + path + b" HTTP/1.1\r\n" + HOST + HOST + end,
        b"GET " + path + b" HTTP/9.9\r\n" + HOST + end,
        b"GET " + path + b" HTTP/1.9\r\n" + HOST + end,
        (head + b"\r\n") * 5,
        *ALIEN,
    )  # fmt: skip


LINES = (
    b"web/server-1\n", b"web/server-1 100\r\n", b"web/nobody\n", b"web/server-1\nweb/server-1\n", b"\n",
    b"web/" + b"a" * 600 + b"\n", b"web/server-1 999\n", b"up 100%\n", *ALIEN,
)  # fmt: skip

ANSWERS = (
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
    b"HTTP/1.0 503 Service Unavailable\r\nConnection: close\r\n\r\nno",
    b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffff\r\nx",
    b"HTTP/1.1 302 Found\r\nLocation: http://evil.example/\r\nContent-Length: 0\r\n\r\n",
    b"HTTP/1.1 99999 \xff\r\n\r\n",
    b"HTTP/1.1 422 Unprocessable\r\nContent-Type: application/problem+json\r\n\r\n"
    b'{"detail":"no","errors":[{"field":"a","message":"\x1b[2Jb"}]}',
    b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 3000 + b"\r\n",
    b"HTTP/1.1 200 OK\r\nContent-Length: 300\r\n\r\n"
    # A table of an upstream that does not exist: without a key, nginx would rightly accept one of its own.
    b'{"v":1,"upstream":"nobody","term":9,"generation":9,"issued_at_ms":1,"law":"static","picker":"vnswrr",'
    b'"reporters":[],"peers":[]}',
    b"VALUE steelyard:1:weights:web 0 5\r\nhello\r\nEND\r\n",
    b"VALUE steelyard:1:weights:web 0 999999999\r\nx",
    b"VALUE steelyard:1:sample:web:server-1 0 -1\r\n\r\nEND\r\n",
    b"END\r\n", b"STORED\r\n", b"SERVER_ERROR out of memory\r\n", b"ERROR\r\n",
    b"$-1\r\n", b"+OK\r\n", b"-ERR no\r\n", b":1\r\n", b"*2\r\n$1\r\na\r\n$-1\r\n", b"*99999999\r\n",
    b"$99999999999\r\n", b"%1\r\n+server\r\n+redis\r\n", b"", *ALIEN,
)  # fmt: skip
