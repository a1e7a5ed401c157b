"""A server's registration: the request to a controller, the meaning of its answer, and the next one's time.
Pure.

    PUT    /v1/upstreams/{upstream}/peers/{peer}   {"address", "baseline"?}
    DELETE /v1/upstreams/{upstream}/peers/{peer}

State and pin are never sent: only a person sets them. The pause before the next PUT, in s:

    taken      PERIOD_S, +-10 %: a controller that lost its state learns the server again
    no answer  1, 2, 4 ... PERIOD_S, less up to a half (no connection, 5xx, 408, 409, 425, 429)
    refused    RARELY_S (a person must mend it); PERIOD_S for 404: the upstream may be declared meanwhile
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from steelyard_protocol import peer_address
from steelyard_protocol.setting_values import Address

from steelyard_agent.evidence import Evidence
from steelyard_agent.log_text import one_line
from steelyard_agent.registration import register_flags
from steelyard_agent.registration.register_flags import Url

PERIOD_S = 30.0
RARELY_S = 300.0
FIRST_PAUSE_S = 1.0

# A thousand agents started at once must not ask in the same millisecond.
SPREAD_S = 1.0

# The request may succeed at the next controller or a moment later: the leader changed, it is overloaded.
TRANSIENT_STATUSES = {408, 409, 425, 429}


class Verdict(Enum):
    """The meaning of an answer."""

    TAKEN = "the controller accepted it"
    NO_ANSWER = "ask the next controller"
    REFUSED = "a person has to mend something"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """The content of a request. The host of `address` may be register_flags.AUTO."""

    upstream: str
    peer: str
    address: Address
    baseline: float | None = None

    @property
    def path(self) -> str:
        """Return the peer's path; names need no quoting."""
        return f"/v1/upstreams/{self.upstream}/peers/{self.peer}"

    def reached_at(self, source_ip: str) -> str:
        """Return HOST:PORT for nginx; `source_ip` is the one this machine uses to reach the controller."""
        host, port = self.address
        return peer_address.join(source_ip if host == register_flags.AUTO else host, port)

    def body(self, source_ip: str) -> bytes:
        """Return the JSON of a PUT."""
        document: dict[str, str | float] = {"address": self.reached_at(source_ip)}
        if self.baseline is not None:
            document["baseline"] = self.baseline
        return json.dumps(document).encode()

    def evidence(self, urls: Iterable[Url], source_ip: str, *, with_token: bool) -> Evidence:
        """Return the declaration and its destination, for --explain."""
        host, port = self.address
        derived = f" (from auto:{port})" if host == register_flags.AUTO else ""
        weight = "from its capacity" if self.baseline is None else f"{self.baseline:g}"
        return Evidence(
            indicator="register",
            value=None,
            sources=tuple(f"{url}{self.path}" for url in urls),
            note=f"address {self.reached_at(source_ip)}{derived}, baseline {weight}, "
            f"{'a' if with_token else 'no'} token",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterSettings:
    """The declaration of this server and its controllers; `token` and `token_file` are not both set."""

    urls: tuple[Url, ...]
    wanted: Registration
    token: str | None = field(default=None, repr=False)
    token_file: Path | None = None
    deregister: bool = False


def verdict(status: int) -> Verdict:
    """Return the meaning of an HTTP status."""
    if 200 <= status < 300:
        return Verdict.TAKEN
    return Verdict.NO_ANSWER if status >= 500 or status in TRANSIENT_STATUSES else Verdict.REFUSED


def reason(status: int, body: bytes) -> str:
    """Return an answer's reason for a person, in one line: the detail of its problem document (RFC 9457)."""
    answer = f"it answers {status}"
    if 300 <= status < 400:
        return f"{answer}, a redirection, which is not followed: give the URL that it leads to"
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return f"{answer}, without a problem document: is that URL a Steelyard controller's?"
    if not isinstance(document, dict):
        return answer
    parts = [document.get("detail") or document.get("title")]
    errors = document.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict):
            parts.append(f"{error.get('field')}: {error.get('message')}")
            parts.append(error.get("remedy"))
    words = "; ".join(part for part in parts if isinstance(part, str) and part)
    return one_line(f"{answer}: {words}" if words else answer)


def pause_after_taken_s(random: float) -> float:
    """Return the time to the next PUT; `random` is within 0..1."""
    return PERIOD_S * (0.9 + 0.2 * random)


def pause_after_failure_s(failures: int, random: float) -> float:
    """Return the pause after this number of failures in a row."""
    # 2 ** 10 is beyond the longest pause; an unbounded exponent would overflow in the end.
    return float(min(FIRST_PAUSE_S * 2 ** min(failures - 1, 10), PERIOD_S) * (0.5 + random / 2))


def pause_after_refusal_s(status: int, random: float) -> float:
    """Return the time to the next try after a refusal."""
    return (PERIOD_S if status == 404 else RARELY_S) * (0.9 + 0.2 * random)
