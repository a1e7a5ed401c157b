"""Bearer tokens and their roles.

Pure. Roles: `read` < `agent` (registers servers; with a server's own token that
one alone) < `admin`. A write needs a token; where a read token is set, reading
needs one too. A token is compared with every known one, in constant time, so
that the time of an answer reveals neither which one it resembles nor how much.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from steelyard_protocol import derived_keys, wire

Role = Literal["read", "agent", "admin"]

ROLES: tuple[Role, ...] = ("read", "agent", "admin")
"""From the least to the most."""

# 16 characters of base64 are 96 bits, too many to guess.
SHORTEST = 16
LONGEST = 1024

# What RFC 6750 lets stand after "Bearer".
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class BadToken(ValueError):
    """A text is not a valid token; the message says why and never quotes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The configured tokens by role, and the admin token that the controller made itself, as digests.

    `key` is the shared key, where servers have tokens of their own that are derived from it.
    """

    digests: tuple[tuple[Role, bytes], ...] = field(default=(), repr=False)
    generated: bytes | None = field(default=None, repr=False)
    key: bytes | None = field(default=None, repr=False)

    def role_of(self, token: str) -> Role | None:
        """Return the strongest role of a token; None: it is not a known token."""
        offered = _digest(token)
        strongest: Role | None = None
        made: tuple[tuple[Role, bytes], ...] = () if self.generated is None else (("admin", self.generated),)
        for role, digest in self.digests + made:
            # No early exit: every token costs the same.
            if hmac.compare_digest(offered, digest) and (strongest is None or weaker(strongest, role)):
                strongest = role
        return "agent" if strongest is None and self.server_of(token) else strongest

    def server_of(self, token: str) -> tuple[str, str] | None:
        """Return the upstream and the server whose own token this is; None: it is no server's own."""
        upstream, peer, *_ = (*token.split("/", 2), "", "")
        if self.key is None or not wire.is_name(upstream) or not wire.is_name(peer):
            return None
        own = derived_keys.token(self.key, upstream, peer)
        return (upstream, peer) if hmac.compare_digest(_digest(own), _digest(token)) else None

    def has(self, role: Role) -> bool:
        """Tell whether any token of a role is configured."""
        return any(each == role for each, _ in self.digests)


def access(
    *,
    admin: Iterable[str] = (),
    agent: Iterable[str] = (),
    read: Iterable[str] = (),
    generated: str | None = None,
    key: bytes | None = None,
) -> Access:
    """Return the tokens as an `Access`; raise `BadToken`."""
    given: tuple[tuple[Role, Iterable[str]], ...] = (("admin", admin), ("agent", agent), ("read", read))
    return Access(
        digests=tuple((role, _digest(checked(token))) for role, tokens in given for token in tokens),
        generated=None if generated is None else _digest(checked(generated)),
        key=key,
    )


def weaker(one: Role, other: Role) -> bool:
    """Tell whether the first role may less than the second."""
    return ROLES.index(one) < ROLES.index(other)


def checked(token: str) -> str:
    """Return the token; raise `BadToken` for one that is too short or that no header could carry."""
    if len(token) < SHORTEST:
        raise BadToken(f"a token has at least {SHORTEST} characters: make one with `openssl rand -hex 24`")
    if len(token) > LONGEST:
        raise BadToken(f"a token has at most {LONGEST} characters")
    if not _TOKEN.fullmatch(token):
        raise BadToken("a token is made of letters, digits and ._~+/- (= at its end)")
    return token


def tokens_of(text: bytes) -> tuple[str, ...]:
    """Return the tokens of a file, one a line, blank lines left out; raise `BadToken`."""
    tokens = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        if line.strip():
            try:
                tokens.append(checked(line.strip()))
            except BadToken as error:
                raise BadToken(f"line {number}: {error}") from None
    if not tokens:
        # An empty file is not "no token": a secret that was not mounted would let everybody in.
        raise BadToken("there is no token in it: put one on each line")
    return tuple(tokens)


def _digest(token: str) -> bytes:
    # Digests are all of one length, so that not even a token's length shows.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
