"""Bearer tokens: the name and the rights of each.

Pure. The scope `agent` registers servers, with a server's own token that
one alone; `drain` sets states and pins; `declare` may do everything. `proxy` is
a login proxy's, which sends its token with the name of a person. Each may read, and `read` nothing else.
A change needs a token; if a token names the scope `read`, reading does too.
A token is compared with every known one, in constant time, so that the time of
an answer reveals neither which one it resembles nor how much.
A line of the tokens file is NAME TOKEN SCOPES [UPSTREAMS] (docs/reference/configuration.md).
"""

import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from typing import Literal

from steelyard_protocol import derived_keys, wire

Scope = Literal["read", "agent", "drain", "declare"]

ALLOWS: Mapping[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "agent": frozenset({"read", "agent"}),
    "drain": frozenset({"read", "drain"}),
    "declare": frozenset({"read", "agent", "drain", "declare"}),
}
"""The rights of each scope."""

# 16 characters of base64 are 96 bits, too many to guess.
MIN_TOKEN_CHARACTERS = 16
MAX_TOKEN_CHARACTERS = 1024

# RFC 6750's form of a token after "Bearer".
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")

# For a token or a person: an e-mail address, a subject of OpenID Connect.
_NAME = re.compile(r"[!-~]{1,128}")
_DIGEST = re.compile(r"sha256:([0-9A-Fa-f]{64})")
_UPSTREAMS = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,63}")

# The tokens in the controller's own settings.
ROLES: Mapping[str, Scope] = {"admin": "declare", "agent": "agent", "read": "read"}


class BadToken(ValueError):
    """A text is not a valid token; the message has the reason and never quotes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """The rights of a request, and the author's name for its changes.

    `upstreams` are the names, or patterns such as `shop-*`, of the upstreams that it may change. `server` is
    the (upstream, server) of a server's own token; `proxy` the name of the proxy that named the person.
    """

    name: str
    scopes: frozenset[Scope]
    upstreams: tuple[str, ...] = ("*",)
    server: tuple[str, str] | None = None
    proxy: str | None = None

    def may(self, scope: Scope) -> bool:
        """Return whether it has a scope, or a wider one; every holder of a token may read."""
        return scope == "read" or any(scope in ALLOWS[each] for each in self.scopes)

    def covers(self, upstream: str) -> bool:
        """Return whether it may change an upstream."""
        return any(fnmatchcase(upstream, pattern) for pattern in self.upstreams)

    def within(self, scopes: Iterable[Scope]) -> "Grant":
        """Return it with no more rights than these scopes have."""
        most = {allowed for each in scopes for allowed in ALLOWS[each]}
        return replace(self, scopes=frozenset(scope for scope in most if self.may(scope)))


ANYBODY = Grant(name="anybody", scopes=frozenset({"read"}))
"""The grant of a request without a token."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A known token, as its digest."""

    digest: bytes = field(repr=False)
    grant: Grant
    is_proxy: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """The content of the tokens file: tokens, and the people that a proxy may name, by their names."""

    tokens: tuple[Token, ...] = ()
    people: Mapping[str, Grant] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The known tokens; among two equal ones the first counts.

    `generated` is the admin token that the controller made. `key` is the shared key, if servers have their
    own tokens, which are derived from it.
    """

    named: Named = Named()
    roles: tuple[Token, ...] = ()
    generated: Token | None = None
    key: bytes | None = field(default=None, repr=False)

    @property
    def configured(self) -> tuple[Token, ...]:
        """Return the tokens set by a person."""
        return self.named.tokens + self.roles

    def grant_of(self, token: str, person: str | None = None) -> Grant | None:
        """Return the grant of a token, or of the person that a proxy names with it; None if it is unknown."""
        known = self._known(token)
        if person is not None:
            if known is None or not known.is_proxy or not _NAME.fullmatch(person):
                return None
            return replace(self.named.people.get(person, known.grant), name=person, proxy=known.grant.name)
        if known is not None:
            return None if known.is_proxy else known.grant
        server = self._server_of(token)
        return server and Grant(name="/".join(server), scopes=frozenset({"agent"}), server=server)

    def has(self, scope: Scope) -> bool:
        """Return whether a configured token names a scope."""
        return any(scope in each.grant.scopes for each in self.configured)

    def _known(self, token: str) -> Token | None:
        offered, first = _digest(token), None
        for each in self.configured + (() if self.generated is None else (self.generated,)):
            # No early exit: every token costs the same.
            if hmac.compare_digest(offered, each.digest) and first is None:
                first = each
        return first

    def _server_of(self, token: str) -> tuple[str, str] | None:
        upstream, peer, *_ = (*token.split("/", 2), "", "")
        if self.key is None or not wire.is_name(upstream) or not wire.is_name(peer):
            return None
        own = derived_keys.token(self.key, upstream, peer)
        return (upstream, peer) if hmac.compare_digest(_digest(own), _digest(token)) else None


def access(
    *,
    admin: Iterable[str] = (),
    agent: Iterable[str] = (),
    read: Iterable[str] = (),
    generated: str | None = None,
    key: bytes | None = None,
    named: Named = Named(),
) -> Access:
    """Return the tokens as an `Access`; raise `BadToken`."""
    given = (("admin", admin), ("agent", agent), ("read", read))
    return Access(
        named=named,
        roles=tuple(_of_role(role, token) for role, tokens in given for token in tokens),
        generated=None if generated is None else _of_role("admin", generated),
        key=key,
    )


def checked(token: str) -> str:
    """Return the token; raise `BadToken` if it is too short or does not fit into a header."""
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise BadToken(
            f"a token has at least {MIN_TOKEN_CHARACTERS} characters: make one with `openssl rand -hex 24`"
        )
    if len(token) > MAX_TOKEN_CHARACTERS:
        raise BadToken(f"a token has at most {MAX_TOKEN_CHARACTERS} characters")
    if not _TOKEN.fullmatch(token):
        raise BadToken("a token is made of letters, digits and ._~+/- (= at its end)")
    return token


def tokens_of(text: bytes) -> tuple[str, ...]:
    """Return the tokens of a file, one a line, without blank lines; raise `BadToken`."""
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


def named_tokens(text: bytes) -> Named:
    """Return the content of the tokens file; raise `BadToken` with the line, quoting nothing of it."""
    tokens: dict[bytes, tuple[int, Token]] = {}
    people: dict[str, Grant] = {}
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        fields = line.split()
        if not fields or fields[0].startswith("#"):
            continue
        try:
            token, person = _of_line(fields)
        except BadToken as error:
            raise BadToken(f"line {number}: {error}") from None
        if person is not None:
            if person.name in people:
                raise BadToken(f"line {number}: this person has two lines: take one out")
            people[person.name] = person
        if token is not None:
            before, _ = tokens.setdefault(token.digest, (number, token))
            if before != number:
                raise BadToken(f"line {number}: line {before} has this token: give each name one of its own")
    if not tokens:
        raise BadToken("there is no token in it: write NAME TOKEN SCOPES [UPSTREAMS] in each line")
    return Named(tokens=tuple(token for _, token in tokens.values()), people=people)


def _of_line(fields: list[str]) -> tuple[Token | None, Grant | None]:
    if len(fields) not in (3, 4):
        raise BadToken(
            f"it has {len(fields)} fields, not 3 or 4: write NAME TOKEN SCOPES [UPSTREAMS], as in "
            "anna sha256:… drain web"
        )
    name, secret, scopes, upstreams = (*fields, "*")[:4]
    if not _NAME.fullmatch(name) or name in ROLES:
        raise BadToken(
            f"its name is invalid: use up to 128 letters, digits and marks of ASCII, not {', '.join(ROLES)}"
        )
    named = set(scopes.split(","))
    is_proxy = "proxy" in named
    # Quoted nowhere: with fields in another order, the token is among them.
    if not named <= {*ALLOWS, "proxy"}:
        raise BadToken(f"its third field has an unknown scope: write {', '.join(ALLOWS)}, proxy")
    patterns = tuple(upstreams.split(","))
    if not all(_UPSTREAMS.fullmatch(each) for each in patterns):
        raise BadToken("its fourth field is no list of upstreams: write web,shop-* or leave it out")
    grant = Grant(
        name=name,
        scopes=frozenset(each for each in ALLOWS if each in named),
        upstreams=patterns,
    )
    if secret == "-":  # noqa: S105 - no token
        if is_proxy:
            raise BadToken("a proxy has a token: put it, or its sha256:…, in the second field")
        return None, grant
    digest = _DIGEST.fullmatch(secret)
    if secret.startswith("sha256:") and digest is None:
        raise BadToken("sha256: has 64 hexadecimal digits: printf %s TOKEN | sha256sum prints them")
    known = bytes.fromhex(digest[1]) if digest else _digest(checked(secret))
    return Token(digest=known, grant=grant, is_proxy=is_proxy), None


def _of_role(role: str, token: str) -> Token:
    return Token(digest=_digest(checked(token)), grant=Grant(name=role, scopes=frozenset({ROLES[role]})))


def _digest(token: str) -> bytes:
    # Digests are all of one length, so that not even a token's length shows.
    return hashlib.sha256(token.encode("utf-8", "replace")).digest()
