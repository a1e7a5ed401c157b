"""The requirements of each pass of a request: its servers, their counts and health, and the blame. Pure."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from steelyard_resilience.fuzz.nginx_cases import Answer, Visit
from steelyard_resilience.fuzz.nginx_chains import Chains, Place

# Answers of a half-open server to probes until it is back. A request and a subrequest may each probe it, and
# each worker learns of its return a little later.
MOST_PROBES = 4

PROBLEM = "application/problem+json"

OUT = re.compile(r"steelyard: upstream (\S+): (\S+) \(\S+\) (is out for|answers again)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A request that a server has read.

    visit: the path that the client asked for. status: 0 if the server hung up.
    """

    visit: str
    place: str
    upstream: str
    server: str
    status: int


def wrong_passes(case: Chains, sent: Sequence[Sent]) -> list[str]:
    """Return the passes that went to too many servers, to one twice, or to a server of another upstream."""
    passes = defaultdict[tuple[str, str], list[str]](list)
    wrong = []
    for one in sent:
        passes[one.visit, one.place].append(one.server)
        if one.server not in case.members[one.upstream]:
            wrong.append(f"a request for {one.upstream} went to {one.server}")
    for (visit, at), servers in passes.items():
        place = case.places[at]
        if len(servers) > place.tries:
            wrong.append(f"{visit} at {at} went to {len(servers)} servers, more than {place.tries}")
        elif len(set(servers)) < len(servers) and not _is_spare(case, place, servers):
            wrong.append(f"{visit} at {at} went to {', '.join(servers)}")
    return wrong


def _is_spare(case: Chains, place: Place, servers: Sequence[str]) -> bool:
    # The only server that is not out may be asked again, once.
    alone = len(case.members[place.upstream]) == 1 or case.max_fails[place.upstream] > 0
    return alone and len(servers) == 2


def wrong_counts(case: Chains, sent: Sequence[Sent], status: Mapping[str, Any]) -> list[str]:
    """Return the counts in /steelyard/status that differ from what the servers did.

    A try can fail without a request: its connection ends just then.
    """
    wrong, answered, failed = [], Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for one in sent:
        if case.places[one.place].is_logged:
            fails = one.status == 0 or one.status in case.failure_statuses[one.upstream]
            (failed if fails else answered)[one.upstream, one.server] += 1
    for name, upstream in status["upstreams"].items():
        for peer in upstream["peers"]:
            key = name, peer["address"]
            if peer["completed"] != answered[key] or peer["failed"] < failed[key]:
                wrong.append(
                    f"{name}'s {peer['id']} completed {answered[key]} and failed {failed[key]}, and counts "
                    f"{peer['completed']} and {peer['failed']}"
                )
    return wrong


def wrong_health(case: Chains, sent: Sequence[Sent], log: str) -> list[str]:
    """Return the servers that were taken out though they are well, or that stay in though they are dead."""
    wrong, out = [], set[tuple[str, str]]()
    hung = {(one.upstream, one.server) for one in sent if one.status == 0}
    for name, server, what in OUT.findall(log):
        out.add((name, server))
        if server not in case.members[name]:
            wrong.append(f"the log says of {name} that {server}, which is not its own, {what}")
        elif (name, server) not in hung and server not in case.closes_idle:
            wrong.append(f"the log says of {name} that {server}, which is well, {what}")
    for name, server in must_be_out(case, sent):
        if (name, server) not in out:
            wrong.append(f"{name}'s {server} is dead, and was not taken out")
    return wrong


def must_be_out(case: Chains, sent: Sequence[Sent]) -> set[tuple[str, str]]:
    """Return the dead servers that failed a logged pass in which another one answered."""
    passes = defaultdict[tuple[str, str], list[Sent]](list)
    for one in sent:
        passes[one.visit, one.place].append(one)
    return {
        (one.upstream, one.server)
        for (_, at), tries in passes.items()
        for one in tries
        if case.places[at].is_logged and case.max_fails[one.upstream] == 1 and one.server in case.dead
        and one.status == 0 and tries[-1].status
    }  # fmt: skip


def wrong_answers(case: Chains, answers: Sequence[tuple[Visit, Answer]]) -> list[str]:
    """Return the answers that name a server which did not give them, or blame another upstream."""
    wrong = []
    for visit, answer in answers:
        server, named = answer.headers.get("x-backend"), answer.headers.get("x-steelyard-server")
        if server and named not in (None, server):
            wrong.append(f"{visit.path}: an answer {answer.status} of {server} names {named}")
        elif server and server != "nginx" and named is None:
            wrong.append(f"{visit.path}: an answer {answer.status} of {server} names no server")
        if answer.headers.get("content-type") == PROBLEM:
            wrong += (f"{visit.path}: {text}" for text in _wrong_blame(case, _document(answer.body)))
    return wrong


def _document(body: bytes) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(body[body.index(b"{") : body.rindex(b"}") + 1])  # perhaps in chunks
    return document


def _wrong_blame(case: Chains, problem: Mapping[str, Any]) -> list[str]:
    tries = [
        (tried.get("upstream", problem["upstream"]), tried["peer"]) for tried in problem.get("tries", ())
    ]
    return [
        f"the failure of {name} is blamed on {peer}" for name, peer in tries if peer not in case.members[name]
    ]


def still_out(status: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the servers that are out, with their upstreams."""
    return [
        (name, peer["address"])
        for name, upstream in status["upstreams"].items()
        for peer in upstream["peers"]
        if peer["health"] != "ok"
    ]


def in_flight(status: Mapping[str, Any]) -> list[str]:
    """Return the servers with requests in flight."""
    return [
        f"{name}'s {peer['id']} has {peer['in_flight']} in flight"
        for name, upstream in status["upstreams"].items()
        for peer in upstream["peers"]
        if peer["in_flight"]
    ]
