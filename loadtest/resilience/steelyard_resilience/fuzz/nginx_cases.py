"""Random configurations of nginx, the visits to each, and the requirements after them. Pure.

A location leads only to later ones, so there are no loops. Each sends its server three headers: the name of
its upstream (X-Upstream), the number of the case (X-Case), and a path to include (X-Next).
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from steelyard_loadtest.templates import lua

UPSTREAMS = ("web", "login", "spare")

# The courses and ends of visits, with their weights in the draw.
MANNERS = {
    "whole": 8, "twice": 2, "leaves": 3, "leaves late": 3, "leaves in body": 2, "half a request": 1, "h2": 3,
    "upgrade": 2, "slow body": 2, "slow body, leaves": 1, "chunked": 2, "h2 reset": 3, "h2 reset in body": 2,
}  # fmt: skip

# A mark on nginx's own answers, except its error pages.
OWN = "add_header X-Backend nginx always;"
# A variable an upstream: subrequests share those of their request.
SHARD = 'set_by_lua_block $s_<own> { return steelyard.shard("<own>") }'
CACHE = "proxy_cache pages; proxy_cache_key l<at>; proxy_cache_valid any 1s;"

Table = Sequence[tuple[float, *tuple[str, ...]]]
"""Probability of each row, and its texts, one of which is drawn; <...> is drawn too."""

ANYWHERE: Table = (
    (0.7, *(f"access_by_lua_block {{ {what} }}" for what in (
        *['steelyard.limit("<own>")'] * 5,
        'steelyard.limit("<other>")', 'steelyard.after_full("<own>")', "ngx.sleep(0.02)", "ngx.exit(401)"))),
    (0.8, *(f"header_filter_by_lua_block {{ steelyard.header() {what} }}" for what in (
        "", "steelyard.sticky()", "steelyard.release()"))),
    (0.15, "body_filter_by_lua_block { steelyard.release() }"),
    (0.3, "log_by_lua_block { return }", "log_by_lua_block { steelyard.log() }"),
    (0.15, "auth_request <plain>;"), (0.15, "mirror <plain>;"),
    (0.5, "lua_check_client_abort on;"), (0.3, "log_subrequest on;"),
    *((0.25, f"error_page {codes} <kept><page>;") for codes in ("401", "404", "500", "502 503 504")),
)  # fmt: skip
REDIRECTS: Table = (
    (1, OWN), (0.4, SHARD),
    (1, "try_files /none <later>;", "rewrite ^ <plain> last;", 'content_by_lua_block { ngx.exec("<later>") }',
     'rewrite_by_lua_block { ngx.exec("<later>") }', "return 503;", "return 401;",
     # Lua has subrequests in HTTP/1 alone, and ngx_lua fails in those of a mirror.
     """content_by_lua_block {
        if ngx.is_subrequest or ngx.req.http_version() == 2 then return ngx.exec("<plain>") end
        local answer = ngx.location.capture("<plain>") ngx.status = answer.status ngx.say(answer.body) }"""),
)  # fmt: skip
PROXIES: Table = (
    (1, "proxy_set_header X-Upstream <own>; proxy_set_header X-Case <case>;"),
    (1, "proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection $upgrades;"),
    (1, "proxy_set_header X-Next <plain>;"),
    (1, "proxy_read_timeout 400ms;", "proxy_read_timeout 150ms;"),
    (0.35, "ssi on;", "proxy_buffering off;"),  # with both, nginx does not end a truncated answer
    (0.5, "proxy_intercept_errors on;"),
    (0.2, CACHE, CACHE + "proxy_cache_lock on;", CACHE + "proxy_cache_background_update on; "
     "proxy_cache_use_stale updating error timeout http_503;"),
    (0.2, "proxy_request_buffering off;"),
    (0.15, "proxy_ignore_client_abort on;"),
    (0.5, *(f"proxy_next_upstream {what};" for what in (
        "off", "error timeout invalid_header http_500 http_503", "error timeout http_503 non_idempotent"))),
    (1, "proxy_pass http://<own>;", "proxy_pass http://<own>;", SHARD + " proxy_pass http://$s_<own>;"),
)  # fmt: skip

NGINX = """@MAIN@ daemon off; pid nginx.pid; error_log error.log notice; worker_processes {workers};
events {{ worker_connections 256; }}
http {{
  access_log off; proxy_cache_path c keys_zone=pages:100k; client_body_temp_path b;
  proxy_temp_path p; fastcgi_temp_path f; uwsgi_temp_path u; scgi_temp_path s;
  lua_package_path "@LUA@/steelyard/lib/?.lua;@LUA@/lua-resty-vnswrr/lib/?.lua;;";
  lua_shared_dict steelyard 2m; lua_socket_log_errors off;
  init_by_lua_block {{ steelyard, worker = require "steelyard", require "steelyard.phase.worker" }}
  init_worker_by_lua_block {{ steelyard.init_worker{options} }}
  log_by_lua_block {{ steelyard.log() }}
  map $http_upgrade $upgrades {{ default upgrade; "" ""; }}
  proxy_http_version 1.1; proxy_connect_timeout 1s; client_body_timeout 2s;
{blocks}
  server {{
    listen 127.0.0.1:@PORT@; listen 127.0.0.1:@PORT2@ http2;
    location = /steelyard/status {{ content_by_lua_block {{ steelyard.status() }} }}
    location = /open {{ content_by_lua_block {{ -- the answering worker's state that no page shows
      local open, kept, waiting = 0, 0, 0
      for _ in pairs(worker.requests.open) do open = open + 1 end
      for _, one in ipairs(worker.requests.spare) do
        local is_used = one.tries.n ~= 0 or one.reservation.peer or one.place.queue or one.held_cell
        kept = kept + (is_used and 1 or 0)
      end
      for _, live in pairs(worker.upstreams) do waiting = waiting + #(live.waiting or {{}}) end
      ngx.say('{{"requests open": ', open, ', "reservations": ', kept, ', "queue places": ', waiting, '}}')
    }} }}
    location @failure {{ {own} content_by_lua_block {{ steelyard.failure() }} }}
    location = /static {{ {own} header_filter_by_lua_block {{ steelyard.header() }} return 200 "static"; }}
{server}
  }}
}}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Visit:
    """One visit: its path, its course and end, its delay, and the size of its body in bytes."""

    path: str
    manner: str
    wait_s: float
    body: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A configuration with @...@ for the attack to fill in, and the servers' addresses by upstream."""

    seed: int
    members: Mapping[str, Sequence[str]]
    conf: str
    visits: Sequence[Visit]


def a_case(seed: int, servers: Sequence[str]) -> Case:
    """Return the case of a seed; servers: all addresses, to be shared out among the upstreams."""
    draw = Random(seed)
    pool = draw.sample(servers, len(servers))
    chosen = draw.sample(UPSTREAMS, draw.choice((2, 2, 3)))
    members = {name: [pool.pop() for _ in range(draw.randint(1, 4))] for name in chosen}
    names = ["/l0", *(f"{draw.choice('@//')}l{at}" for at in range(1, draw.randint(3, 8)))]
    locations = [_location(draw, at, names, chosen, seed) for at in range(len(names))]
    paths = ["/l0", *(name for name in names if name[0] == "/")]
    all_logged = draw.random() < 0.3  # the end of every try is known: no client leaves, and all is logged
    manners = {
        one: often
        for one, often in MANNERS.items()
        if not (all_logged and re.search("leaves|reset|half", one))
    }
    visits = [
        Visit(
            path=draw.choice(paths), manner=draw.choices([*manners], [*manners.values()])[0],
            wait_s=draw.choice((0, 0, 0, 0.05, 0.2, 0.6)), body=draw.choice((0, 0, 3, 3000, 40_000)),
        )
        for _ in range(draw.randint(6, 24))
    ]  # fmt: skip
    options = {
        "memcached": ["127.0.0.1:1"], "lb": "edge-1", "fetch_interval_s": 1, "report_interval_s": 0.3,
        "upstreams": {name: _upstream(draw, name, members[name]) for name in chosen},
    }  # fmt: skip
    pages = (f"error_page 401 502 503 504 {names[-1]};", "error_page 502 503 504 @failure;", "")
    balance = 'server 0.0.0.1; balancer_by_lua_block {{ steelyard.balance("{0}") }}'
    keeps = draw.choice(("", "keepalive 8;"))
    conf = NGINX.format(
        workers=draw.choice((1, 1, 2)), options=lua(options), own=OWN,
        blocks="\n".join(
            f"  upstream {name}{shard} {{ {balance.format(name)} {keeps} }}"
            for name in chosen for shard in ("", "_00", "_01")
        ),
        server="\n".join([draw.choice(pages), draw.choice(("", "recursive_error_pages on;")), *locations]),
    )  # fmt: skip
    if all_logged:
        conf = conf.replace("log_by_lua_block { return }", "").replace(
            "access_log off;", "access_log off; log_subrequest on;"
        )
    return Case(seed=seed, members=members, conf=conf, visits=visits)


def _upstream(draw: Random, name: str, servers: Sequence[str]) -> Mapping[str, object]:
    queue = draw.choice((None, {"size": draw.randint(1, 3), "timeout_s": draw.choice((0.05, 0.5))}))
    limits = draw.choice(({}, {"max_conns": draw.randint(1, 2), "queue": queue}))
    return limits | {
        "bootstrap": servers, "retries": draw.choice((0, 1, 2, 2)), "shards": 2, "eject": False,
        "sticky": draw.choice((None, None, {"cookie": f"s-{name}"})), "fail_timeout_s": 0.2,
        "picker": draw.choice((None, None, "vnswrr", "least_conn", "peak_ewma", "hcl")),
        "max_fails": draw.choice((0, 0, 1, 3)), "read_timeout_s": draw.choice((None, 0.2)),
        "load_metrics_format": draw.choice((None, None, "TEXT")),
    }  # fmt: skip


def _location(draw: Random, at: int, names: Sequence[str], upstreams: Sequence[str], seed: int) -> str:
    later = [*names[at + 1 :], "/static"]
    drawn = {
        "own": [draw.choice(upstreams)], "other": upstreams, "case": [str(seed)], "at": [str(at)],
        "later": later, "plain": [name for name in later if name[0] == "/"], "page": [*later, "@failure"],
        "kept": ("", "", "= ", "=200 "),
    }  # fmt: skip
    table = [*ANYWHERE, *(PROXIES if len(later) == 1 or draw.random() < 0.6 else REDIRECTS)]
    text = "\n".join(f"      {draw.choice(texts)}" for share, *texts in table if draw.random() < share)
    text = re.sub("<([a-z]+)>", lambda match: draw.choice(drawn[match[1]]), text)
    return f"    location {names[at]} {{\n{text}\n    }}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer to a visit.

    status: 0 if there was none. complete: the client did not leave early.
    """

    status: int = 0
    headers: Mapping[str, str]
    complete: bool
    body: bytes = b""


Asked = Sequence[tuple[str, str]]
"""Upstream and address of each request that reached a server."""


def wrong_servers(case: Case, asked: Asked, answers: Sequence[Answer]) -> list[str]:
    """Return requests sent to a server of another upstream, and answers that name another server."""
    wrong = [f"a request for {name} went to {at}" for name, at in asked if at not in case.members[name]]
    for answer in answers:
        server, named = answer.headers.get("x-backend"), answer.headers.get("x-steelyard-server")
        if server and named not in (None, server):
            wrong.append(f"an answer {answer.status} of {server} names {named}")
    return wrong


def unrest(
    status: Mapping[str, Any], opened: Mapping[str, int], asked: Asked, *, all_stayed: bool
) -> list[str]:
    """Return the remains of requests, of which there must be none when all is quiet; it may take a while.

    status: from /steelyard/status. opened: a worker's counts of open things. all_stayed: no client left.
    """
    left = [f"a worker has {count} {what}" for what, count in opened.items() if count]
    left += [f"a worker has {each['in_flight']} in flight" for each in status["workers"] if each["in_flight"]]
    lost, unlogged, received = 0, 0, Counter(asked)
    for name, upstream in status["upstreams"].items():
        unlogged += upstream["unlogged"] + upstream["subrequests"] - upstream["subrequests_counted"]
        for peer in upstream["peers"]:
            server, picks, ended = f"{name}'s {peer['id']}", peer["picks"], peer["completed"] + peer["failed"]
            if peer["in_flight"] != 0:
                left.append(f"{server} has {peer['in_flight']} in flight")
            if picks < max(ended, requests := received[name, peer["address"]]):
                left.append(f"{server} was picked {picks} times, got {requests} requests and ended {ended}")
            lost += picks - ended
    if lost > 0 and all_stayed and not unlogged:
        left.append(f"the ends of {lost} tries are not counted")
    return left
