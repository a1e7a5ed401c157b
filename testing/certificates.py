"""Certificates for tests of TLS: the test's own authority, and certificates that it signs."""

import ssl
import subprocess
from pathlib import Path


def _make(folder: Path, name: str, *more: str) -> Path:
    """Make an elliptic-curve key (fast) and its certificate in one file."""
    path = folder / f"{name}.pem"
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    subject = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}"]
    command = ["openssl", "req", "-x509", *curve, *subject, "-days", "2", "-keyout", "-", "-out", "-", *more]
    path.write_bytes(subprocess.run(command, check=True, capture_output=True).stdout)
    return path


class Authority:
    """Signs certificates of servers; `path` is its own certificate."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.path = _make(folder, "authority")

    def file(self, name: str) -> Path:
        """Return a file with a key and its certificate, signed, for this name."""
        return _make(self._folder, name, "-CA", str(self.path), "-CAkey", str(self.path))

    def server(self, name: str, *, signed: bool = True) -> ssl.SSLContext:
        """Return a server's key and certificate for this name; unsigned ones are self-signed."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.file(name) if signed else _make(self._folder, name))
        return context
