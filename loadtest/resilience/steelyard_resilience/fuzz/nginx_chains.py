"""Random chains of locations for nginx, with servers that hang up and come back. Pure.

Each location has one parent: the location that redirects to it, or asks it in an `auth_request`. So a visit
and a location name one pass of a request. Servers hang up at some locations. Dead ones hang up at all of
them, until they are revived.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any

from steelyard_loadtest.templates import lua

from steelyard_resilience.fuzz.nginx_cases import NGINX, OWN, UPSTREAMS, Visit

FAIL_TIMEOUT_S = 0.3

DEPTH = 3

# The ends of a location's pass, with their weights in the draw.
ENDS = {
    "answers": 6, "accel": 4, "accel to nginx": 2, "accel to a download": 1, "404": 4, "404 to a download": 1,
    "all hang up": 6,
}  # fmt: skip

# Ways to a child without a server, with {0} for the child; only the first needs one with a path.
WAYS = (
    "rewrite ^ {0} last;", "try_files /none {0};", 'content_by_lua_block {{ ngx.exec("{0}") }}',
    'rewrite_by_lua_block {{ ngx.exec("{0}") }}',
)  # fmt: skip

# The subrequest of an auth_request has no body, and its request's headers.
NO_BODY = (
    'proxy_pass_request_body off; proxy_set_header Content-Length ""; proxy_set_header Transfer-Encoding "";'
)

# nginx's own answers: a short one; one that lasts until the client leaves; a refusal after a choice.
CONTENTS = f"""
    recursive_error_pages on; header_filter_by_lua_block {{ steelyard.header() }}
    location = /short {{ {OWN} return 200 "short"; }}
    location = /endless {{ {OWN} limit_rate_after 1k; limit_rate 1; return 200 "{"." * 3000}"; }}
    location = /refused {{
      set_by_lua_block $chosen {{ return steelyard.shard(ngx.var.arg_u) }} return 403;
    }}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A location with servers: its upstream, the servers that hang up at it, and the most tries of a pass.

    is_logged: nginx runs the log phase of its requests.
    """

    upstream: str
    hangs: frozenset[str] = frozenset()
    tries: int
    is_logged: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Chains:
    """A configuration with @...@ for the attack to fill in, and its visits in order.

    dead: servers that hang up until they are revived. closes_idle: servers that close each connection soon
    after an answer.

    warm: visits that fill nginx's pools while all servers are well. visits: those with dead ones.

    held: visits that may not end. again: paths for the time after the revival, by the upstream that has
    servers out.
    """

    seed: int
    members: Mapping[str, Sequence[str]]
    places: Mapping[str, Place]
    dead: frozenset[str]
    closes_idle: frozenset[str]
    max_fails: Mapping[str, int]
    failure_statuses: Mapping[str, Sequence[int]]
    conf: str
    warm: Sequence[Visit]
    visits: Sequence[Visit]
    held: Sequence[Visit]
    again: Mapping[str, Sequence[str]]


@dataclass(slots=True)
class _Drawing:
    """A case in the making. may_download: locations may lead to a download; has_download: one does."""

    draw: Random
    seed: int
    members: Mapping[str, Sequence[str]]
    retries: Mapping[str, int]
    log_subrequests: bool
    places: dict[str, Place] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=count)
    may_download: bool = False
    has_download: bool = False

    def proxied(
        self, at: str, upstream: str, *more: str, is_sub: bool = False,
        hangs: Sequence[str] = (), limit: int | None = None,
    ) -> list[str]:  # fmt: skip
        """Add a place; return the lines of its location. limit: of nginx's tries."""
        tries = min(self.retries[upstream] + 1, limit or math.inf)
        is_logged = not is_sub or self.log_subrequests
        self.places[at] = Place(
            upstream=upstream, hangs=frozenset(hangs), tries=int(tries), is_logged=is_logged
        )
        return [
            *([f"proxy_next_upstream_tries {limit};"] if limit else []),
            f"proxy_set_header X-Case {self.seed}; proxy_set_header X-Visit $request_uri;",
            f"proxy_set_header X-At {at}; proxy_set_header X-Upstream {upstream};",
            f'proxy_set_header Connection ""; {NO_BODY if is_sub else ""}', *more,
            f"proxy_pass http://{upstream};",
        ]  # fmt: skip

    def add(self, name: str, lines: Sequence[str]) -> str:
        """Add a location; return its name."""
        self.texts.append(
            f"    location {name} {{\n" + "".join(f"      {line}\n" for line in lines) + "    }"
        )
        return name

    def chain(self, depth: int, *, named: bool, is_sub: bool = False) -> str:
        """Draw a location and its children; return its name. named: it may have no path."""
        draw, at = self.draw, f"l{next(self.numbers)}"
        name = f"{draw.choice('@/') if named else '/'}{at}"
        if depth and draw.random() < 0.2:
            way = draw.choice(WAYS)
            child = self.chain(depth - 1, named=way != WAYS[0], is_sub=is_sub)
            return self.add(name, [way.format(child)])
        upstream, more = draw.choice([*self.members]), list[str]()
        servers = self.members[upstream]
        if draw.random() < 0.2:
            more.append(f'set_by_lua_block $s_{at} {{ return steelyard.shard("{upstream}") }}')
        if depth and not is_sub and draw.random() < 0.35:
            more.append(f"auth_request {self.chain(0, named=False, is_sub=True)};")
        limit = draw.choice((None, None, None, None, draw.randint(1, 4)))
        end = draw.choices([*ENDS], [*ENDS.values()])[0]
        hanging = len(servers) if end == "all hang up" else draw.choice((0, 0, draw.randint(0, len(servers))))
        hangs = draw.sample(servers, hanging)
        more += self._end(end, depth, is_sub=is_sub)
        return self.add(name, self.proxied(at, upstream, *more, is_sub=is_sub, hangs=hangs, limit=limit))

    def _end(self, end: str, depth: int, *, is_sub: bool) -> list[str]:
        child = "@failure"
        if depth and end in ("all hang up", "accel", "404"):
            child = self.chain(depth - 1, named=True, is_sub=is_sub)
        if end == "all hang up":
            return [f"error_page 502 503 504 {child};"]
        if end == "accel" and depth:
            return [f"proxy_set_header X-Next {child};"]
        if end == "404" and depth:
            return [f"proxy_set_header X-Status 404; proxy_intercept_errors on; error_page 404 {child};"]
        if end == "accel to nginx":
            return ["proxy_set_header X-Next /short;"]
        if end.endswith("to a download") and self.may_download and not is_sub:
            self.has_download = True
            if end.startswith("accel"):
                return ["proxy_set_header X-Next /endless;"]
            return ["proxy_set_header X-Status 404; proxy_intercept_errors on; error_page 404 /endless;"]
        return []


def chains_of(seed: int, servers: Sequence[str]) -> Chains:
    """Return the case of a seed; servers: all addresses, to be shared out among the upstreams."""
    draw = Random(seed)
    pool = draw.sample(servers, len(servers))
    members = {
        name: [pool.pop() for _ in range(draw.randint(1, 5))]
        for name in draw.sample(UPSTREAMS, draw.choice((2, 2, 3)))
    }
    options = {name: _upstream(draw, servers) for name, servers in members.items()}
    made = _Drawing(
        draw=draw, seed=seed, members=members, log_subrequests=draw.random() < 0.3,
        retries={name: one["retries"] for name, one in options.items()},
    )  # fmt: skip
    paths, held, again = _paths(made)
    dead = [one for own in members.values() for one in draw.sample(own, draw.randint(0, len(own) // 2))]
    numbers, warm = count(), [f"/plain_{name}" for name in members for _ in range(2 * len(members[name]))]
    return Chains(
        seed=seed, members=members, places=made.places, dead=frozenset(dead),
        closes_idle=frozenset(server for server in servers if draw.random() < 0.1),
        max_fails={name: one["max_fails"] for name, one in options.items()},
        failure_statuses={name: one["failure_statuses"] or () for name, one in options.items()},
        warm=[a_visit(path, next(numbers)) for path in warm],
        visits=[
            a_visit(
                draw.choice(paths), next(numbers), manner=draw.choice(("whole", "whole", "h2", "chunked")),
                wait_s=draw.choice((0, 0, 0.05, 0.3)), body=draw.choice((0, 0, 0, 5)),
            )
            for _ in range(draw.randint(8, 24))
        ],
        held=[a_visit(path, next(numbers)) for path in held], again=again, conf=_conf(made, options),
    )  # fmt: skip


def a_visit(path: str, number: int, *, manner: str = "whole", wait_s: float = 0.0, body: int = 0) -> Visit:
    """Return a visit with a number of its own in its path."""
    path = f"{path}{'&' if '?' in path else '?'}n={number}"
    return Visit(path=path, manner=manner, wait_s=wait_s, body=body)


def _paths(made: _Drawing) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Draw all locations; return the paths to visit, those that may not end, and those for a revival.

    After the revival, most requests for an upstream are subrequests.
    """
    paths, held, again = list[str](), list[str](), dict[str, list[str]]()
    for name in made.members:
        other = made.draw.choice([one for one in made.members if one != name])
        made.add(f"= /plain_{name}", made.proxied(f"plain_{name}", name))
        made.add(f"= /check_{name}", made.proxied(f"check_{name}", name, is_sub=True))
        check = f"auth_request /check_{name};"
        made.add(f"= /checked_{name}", made.proxied(f"checked_{name}", other, check))
        paths += f"/plain_{name}", f"/checked_{name}", f"/refused?u={name}"
        again[name] = [*[f"/checked_{name}"] * 4, f"/plain_{name}"]
    made.may_download = True
    for _ in range(made.draw.randint(4, 7)):
        made.has_download = False
        name = made.chain(DEPTH, named=False)
        (held if made.has_download else paths).append(name)
    return paths, held, again


def _upstream(draw: Random, servers: Sequence[str]) -> dict[str, Any]:
    return {
        "bootstrap": servers, "retries": draw.choice((0, 1, 2, 2)), "shards": 2, "eject": False,
        "picker": draw.choice((None, None, "vnswrr", "least_conn", "peak_ewma")),
        "max_fails": draw.choice((0, 1, 1, 1, 3)), "fail_timeout_s": FAIL_TIMEOUT_S,
        "failure_statuses": draw.choice((None, None, [404])),
    }  # fmt: skip


def _conf(made: _Drawing, upstreams: Mapping[str, object]) -> str:
    keeps = made.draw.choice(("keepalive 16;", "keepalive 16;", ""))
    releases = made.draw.choice(("", "", "body_filter_by_lua_block { steelyard.release() }"))
    options = {
        "memcached": ["127.0.0.1:1"], "lb": "edge-1", "fetch_interval_s": 1, "report_interval_s": 0.3,
        "upstreams": upstreams,
    }  # fmt: skip
    conf = NGINX.format(
        workers=made.draw.choice((1, 1, 2)), options=lua(options), own=OWN,
        server="\n".join((releases, CONTENTS, *made.texts)),
        blocks="\n".join(
            f"  upstream {name}{shard} {{ server 0.0.0.1; "
            f'balancer_by_lua_block {{ steelyard.balance("{name}") }} {keeps} }}'
            for name in made.members for shard in ("", "_00", "_01")
        ),
    )  # fmt: skip
    return (
        conf.replace("access_log off;", "access_log off; log_subrequest on;")
        if made.log_subrequests
        else conf
    )
