"""Who may do what: bearer tokens, and the rule for a controller that has none.

Pure. Roles: `read` < `agent` (registers servers) < `admin`. Where no admin
token is set, writes are taken from this machine alone; where a read token is
set, reading needs a token too. A token is compared with every known one, in
constant time, so that an answer's time tells neither which one it resembles
nor how much.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

Role = Literal["read", "agent", "admin"]

ROLES: tuple[Role, ...] = ("read", "agent", "admin")
"""From the least to the most."""

# 16 characters of base64 are 96 bits: nobody guesses them.
SHORTEST = 16
LONGEST = 1024

# What RFC 6750 lets stand after "Bearer".
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class BadToken(ValueError):
    """A text is no token; the message says why, never what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The tokens by role, as digests; `hosts` are the names under which this controller is reached."""

    digests: tuple[tuple[Role, bytes], ...] = field(default=(), repr=False)
    hosts: frozenset[str] = frozenset()

    def role_of(self, token: str) -> Role | None:
        """Return the strongest role of a token; None: it is none of ours."""
        offered = _digest(token)
        found: Role | None = None
        for role, digest in self.digests:
            # No early exit: every token costs the same.
            if hmac.compare_digest(offered, digest) and (found is None or weaker(found, role)):
                found = role
        return found

    def has(self, role: Role) -> bool:
        """Tell whether any token of a role is set."""
        return any(each == role for each, _ in self.digests)


def access(
    *,
    admin: Iterable[str] = (),
    agent: Iterable[str] = (),
    read: Iterable[str] = (),
    hosts: Iterable[str] = (),
) -> Access:
    """Return the tokens' value; raise `BadToken`."""
    given: tuple[tuple[Role, Iterable[str]], ...] = (("admin", admin), ("agent", agent), ("read", read))
    return Access(
        digests=tuple((role, _digest(checked(token))) for role, tokens in given for token in tokens),
        hosts=frozenset(host.lower() for host in hosts if host),
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
    found = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        if line.strip():
            try:
                found.append(checked(line.strip()))
            except BadToken as error:
                raise BadToken(f"line {number}: {error}") from None
    if not found:
        # An empty one is not "none": a secret that failed to arrive would let everybody in.
        raise BadToken("there is no token in it: put one on each line")
    return tuple(found)


def _digest(token: str) -> bytes:
    # Digests are all of one length, so that not even a token's length shows.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
