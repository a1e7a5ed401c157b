"""Every example starts unchanged, serves real requests, and gives no warning.

A test replaces only values of the machine: the port, the addresses of servers and of Memcached, the number
of workers, the limit of open files, and paths. The first example is a whole nginx.conf. The others get its
lines around http {}, and its two pages. Includes of each other are replaced by their text.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from testing.daemons import free_port
from testing.lua_bytecode import lua_path
from testing.nginx_under_test import OPENRESTY, for_this_nginx, load_modules

pytestmark = pytest.mark.integration

EXAMPLES = OPENRESTY / "examples"

STREAM = "stream.conf"  # started by test_stream.py
COMMON = "steelyard.conf"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.conf") if path.name not in (STREAM, COMMON))
FIRST = "one-upstream.conf"
WORKERS = 2
# Their servers want TLS, speak gRPC or stream tokens: test_protocol_examples.py, test_grpc.py and
# test_inference.py start them.
OTHER_SERVERS = ("tls.conf", "grpc.conf", "inference.conf", "inference-models.conf")
LISTEN = "listen 8080;"
PAGES = "".join(
    f"location = /steelyard/{page} {{ access_log off; "
    f'content_by_lua_block {{ require("steelyard").{page}() }} }}'
    for page in ("status", "metrics")
)
TEMPORARY = ("proxy", "fastcgi", "uwsgi", "scgi")


@cache
def generated(*flags: str, servers: int = 2000) -> str:
    """Return the generator's blocks for an upstream."""
    command = [str(OPENRESTY / "bin" / "steelyard-upstream"), "web", "--servers", str(servers), *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


GENERATED = "steelyard-web.conf"
OF_SOME = (f"/etc/nginx/{GENERATED}", "/etc/nginx/servers-ca.pem")
HAS_BALANCER_KEEPALIVE = "balancer_keepalive" in generated(servers=2)
# The first example's advice for OpenResty; Debian's nginx lacks this directive.
OPENRESTY_POOL = {"keepalive 256;": "balancer_keepalive 256;"}

# gixy is unaware of variables that Lua sets, and nginx resolves no name of an upstream. A comment in
# many-servers.conf says so.
WRONG_FINDINGS = {"many-servers.conf": "ssrf,http_splitting,missing_resolver"}


def whole(name: str) -> str:
    """Return the nginx.conf of an example, with the lines that its comments put before http {}."""
    text = (EXAMPLES / name).read_text()
    if name == FIRST:
        return text
    around, _, _ = (EXAMPLES / FIRST).read_text().partition("    lua_package_path")
    text = text.replace(f"include /etc/nginx/{COMMON};", (EXAMPLES / COMMON).read_text())
    before = re.findall(r"^#   ((?:env|worker_\w+) .*;)$", text, re.MULTILINE)
    if LISTEN not in text:
        text += f"server {{\n    {LISTEN}\n}}\n"  # the gRPC example listens for HTTP/2 alone
    return "\n".join([*before, around, text.replace(LISTEN, LISTEN + PAGES, 1), "}\n"])


def on_this_machine(text: str, servers: list[str], memcached_port: int, workers: int) -> str:
    """Replace the values of the machine; fail if one is missing."""
    root = "user root; " if os.geteuid() == 0 else ""
    temp = " ".join(f"{kind}_temp_path @FOLDER@/{kind};" for kind in TEMPORARY)
    replacements = {
        "worker_processes auto;": f"daemon off; {root}pid @FOLDER@/nginx.pid; worker_processes {workers};",
        "/var/log/nginx/error.log": "@FOLDER@/error.log",
        "http {\n": f"http {{ access_log off; client_body_temp_path @FOLDER@/body; {temp}\n",
        "/usr/local/share/steelyard/lua/?.lua": f"@FOLDER@/?.lua;{lua_path()}",
        LISTEN: "listen 127.0.0.1:@PORT@;",
        "127.0.0.1:11211": f"127.0.0.1:{memcached_port}",
        f"/etc/nginx/{GENERATED}": f"@FOLDER@/{GENERATED}",
        "/etc/nginx/servers-ca.pem": "@FOLDER@/servers-ca.pem",
    }
    text = re.sub(r"worker_rlimit_nofile .*", "", for_this_nginx(text))
    text = re.sub(r"worker_connections \d+;", "worker_connections 1000;", text)
    for before, after in replacements.items():
        assert before in text or before in OF_SOME, before
        text = text.replace(before, after)
    for i, address in enumerate(servers):
        text = re.sub(rf"10\.0\.0\.{11 + i}:\d+", address, text)
    assert "10.0.0.1" not in text.replace("10.0.0.0/8", "")
    return text


@pytest.fixture
def started(rig: Rig, tmp_path: Path) -> Iterator[Callable[..., Edge]]:
    """Return a function that starts an example with the servers a, b, c and d."""
    servers = [rig.backend(name).address for name in "abcd"]
    edges: list[Edge] = []
    (tmp_path / "nginx").mkdir()
    # As an operator would write it.
    (tmp_path / "nginx" / GENERATED).write_text(generated())

    def start(
        name: str, *, workers: int = WORKERS, more: str = "", instead: dict[str, str] | None = None
    ) -> Edge:
        text = whole(name)
        for before, after in (instead or {}).items():
            assert before in text, before
            text = text.replace(before, after)
        text = on_this_machine(text, servers, rig.memcached.port, workers)
        end = text.rindex("}")
        edge = Edge(tmp_path / "nginx", text[:end] + more + text[end:], workers)
        edges.append(edge)
        return edge

    yield start
    for edge in edges:
        edge.stop()


def ask_until_met(rig: Rig, edge: Edge, path: str, wanted: set[str]) -> list[str]:
    """Ask until all of these servers, and no others, have answered; return the names that did."""
    answered: list[str] = []

    def all_met() -> bool:
        answered.append(edge.get(path).server)
        return set(answered) == wanted

    rig.wait_until(all_met, f"{wanted} and no others answer {path}")
    return answered


def completed(edge: Edge, upstream: str) -> int:
    """Return how many requests the servers of an upstream completed."""
    return sum(row["completed"] for row in edge.upstream(upstream)["peers"])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OTHER_SERVERS])
def test_an_example_starts_without_a_warning_and_serves(started: Callable[..., Edge], name: str) -> None:
    edge = started(name)
    assert edge.test_config() == ""
    answers = [edge.get("/") for _ in range(9)]
    assert {answer.status for answer in answers} == {200}
    assert edge.get("/steelyard/metrics").status == 200
    assert {upstream["rung"] for upstream in edge.status()["upstreams"].values()} == {"bootstrap"}
    assert {worker["serving"]["web"]["term"] for worker in edge.status()["workers"]} == {0}
    assert edge.complaints() == []


def test_gixy_finds_nothing(tmp_path: Path) -> None:
    # A start of gixy takes a quarter of a second of CPU. So it reads all files with the same skips at once.
    files: dict[str, list[str]] = {}
    for name in (*NAMES, STREAM, GENERATED, "../docker/nginx.conf"):
        path = EXAMPLES / name
        if name in (*NAMES, GENERATED):
            path = tmp_path / name
            path.write_text(generated("--platform", "debian") if name == GENERATED else whole(name))
        files.setdefault(WRONG_FINDINGS.get(name, ""), []).append(str(path))
    for skips, paths in files.items():
        assert found_by_gixy(paths, skips) == []


def found_by_gixy(paths: list[str], skips: str = "") -> list[dict[str, Any]]:
    """Return gixy's findings in some files."""
    gixy = shutil.which("gixy", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    assert gixy is not None, "gixy-ng is not installed: run `make setup-tests`"
    command = [gixy, "--format", "json", *(["--skips", skips] if skips else []), *paths]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    findings: list[dict[str, Any]] = json.loads(run.stdout)
    return findings


def test_several_upstreams_each_use_their_own_servers(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("several-upstreams.conf")
    answered = ask_until_met(rig, edge, "/", {"a", "b"}) + ask_until_met(rig, edge, "/api/", {"b", "c"})
    assert edge.upstream("api")["picker"] == "least_conn"

    # The server in both upstreams has done the work of both.
    def of_both() -> list[int]:
        counts = [
            {row["address"]: row["completed"] for row in edge.upstream(name)["peers"]}
            for name in ("web", "api")
        ]
        (address,) = counts[0].keys() & counts[1].keys()
        return [count[address] for count in counts]

    rig.wait_until(lambda: of_both() == [answered.count("b")] * 2, "b's answers count in both upstreams")


def test_nginx_s_own_upstream_is_counted_where_it_shares_a_server(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("several-upstreams.conf")
    chosen = ask_until_met(rig, edge, "/", {"a", "b"})
    own = ask_until_met(rig, edge, "/old/", {"b", "c"})
    rig.wait_until(lambda: completed(edge, "web") == len(chosen) + own.count("b"), "b's answers count")
    assert sum(row["picks"] for row in edge.upstream()["peers"]) == len(chosen)


def test_many_servers_keep_their_connections_in_shards(rig: Rig, started: Callable[..., Edge]) -> None:
    edge = started("many-servers.conf")
    peers = [(f"s{i}", rig.backend(f"s{i}").address, 1, "up") for i in range(40)]
    rig.publish(peers, generation=1)
    edge.wait_for(1)
    ask_until_met(rig, edge, "/", {f"s{i}" for i in range(40)})
    assert edge.complaints() == []


@pytest.mark.parametrize(
    ("name", "servers", "pool"),
    [
        (FIRST, 60, {}),
        ("many-servers.conf", 150, {}),
        *([(FIRST, 150, OPENRESTY_POOL)] if HAS_BALANCER_KEEPALIVE else []),
    ],
)
def test_the_pool_holds_a_connection_to_every_server(
    rig: Rig, started: Callable[..., Edge], name: str, servers: int, pool: dict[str, str]
) -> None:
    port = free_port()
    addresses = [f"127.1.{i // 100}.{i % 100 + 1}:{port}" for i in range(servers)]
    listening = " ".join(f"listen {address};" for address in addresses)
    backend = "location / { add_header X-Requests $connection_requests; return 200; }"
    edge = started(name, workers=1, instead=pool, more=f"server {{ {listening} {backend} }}")
    rig.publish([(f"s{i}", address, 1, "up") for i, address in enumerate(addresses)], generation=1)
    edge.wait_for(1)
    # Equal weights: each round asks every server once.
    for nth in ("1", "2", "3"):
        assert {edge.get().headers["X-Requests"] for _ in range(servers)} == {nth}


def test_health_checks_take_out_a_server_before_a_request_meets_it(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    dead = rig.dead_address()
    edge = started("health-checks.conf")
    a, b = rig.backend("a2"), rig.backend("b2")
    peers = [("a", a.address, 1, "up"), ("b", b.address, 1, "up"), ("dead", dead, 8, "up")]
    rig.publish(peers, generation=1)
    edge.wait_for(1)
    for path in ("/", "/catalogue/1", "/orders/1"):
        assert edge.get(path).status == 200
    rig.wait_until(lambda: not edge.peer("dead")["eligible"], "the dead one is out")
    assert edge.upstream()["fail_open"] is False
    ask_until_met(rig, edge, "/", {"a2", "b2"})


def test_any_upstream_serves_a_host_as_soon_as_the_list_has_it(
    rig: Rig, started: Callable[..., Edge]
) -> None:
    edge = started("any-upstream.conf")
    shop = rig.backend("shop")
    rig.publish([("s", shop.address, 1, "up")], generation=1, upstream="shop")
    listed = {"v": 1, "term": 1, "generation": 1, "issued_at_ms": 0, "names": ["shop"]}
    rig.memcached.set("steelyard:1:upstreams", json.dumps(listed))
    # In upper case and with a port it is the same host.
    rig.wait_until(
        lambda: edge.get("/", {"Host": "SHOP.example.com:8080"}).server == "shop", "the shop is served"
    )
    rig.wait_until(
        lambda: edge.get("/", {"Host": "nobody.example.com"}).status == 404, "every worker knows the list"
    )
    ask_until_met(rig, edge, "/", {"a", "b", "c"})  # every other host is `web`


def test_a_session_stays_on_its_server(started: Callable[..., Edge]) -> None:
    edge = started("sticky.conf")
    cache = edge.upstream("cache")
    assert (cache["picker"], cache["picker_error"]) == ("bounded_hash", None)
    of_session = {
        session: {edge.get("/cache/", {"Cookie": f"session={session}"}).server for _ in range(6)}
        for session in map(str, range(12))
    }
    assert all(len(servers) == 1 for servers in of_session.values())
    assert len(set.union(*of_session.values())) > 1


def test_the_librarys_synopsis_serves_by_weight_and_needs_no_other_file(rig: Rig, tmp_path: Path) -> None:
    library = OPENRESTY / "lua-resty-vnswrr"
    synopsis = re.search(r"```nginx\n(.*?)```", (library / "README.md").read_text(), re.DOTALL)
    assert synopsis is not None
    here = f"daemon off; {'user root;' if os.geteuid() == 0 else ''} pid @FOLDER@/nginx.pid;\n"
    temp = " ".join(f"{kind}_temp_path @FOLDER@/{kind};" for kind in TEMPORARY)
    text = here + for_this_nginx(synopsis[1]).replace(
        "/usr/local/share/lua-resty-vnswrr/lib", f"{library}/lib"
    )
    text = text.replace("http {\n", f"http {{ access_log off; client_body_temp_path @FOLDER@/body; {temp}\n")
    text = text.replace("listen 8080;", "listen 127.0.0.1:@PORT@;")
    for i, name in enumerate("abc"):
        text = text.replace(f"10.0.0.{11 + i}:80", rig.backend(name).address)
    edge = Edge(tmp_path / "nginx", text, workers=1)
    try:
        shares = edge.shares(14)
    finally:
        edge.stop()
    assert shares == {"a": 10, "b": 2, "c": 2}


def test_the_short_example_serves_and_keeps_its_connections(rig: Rig) -> None:
    readme = (OPENRESTY.parent / "README.md").read_text()
    example = readme.split("## In your own nginx.conf")[1].split("```nginx\n")[1].split("```")[0]
    a = rig.backend("a")
    text, replaced = re.subn(r'"10\.0\.0\.1[12]:80"', f'"{a.address}"', example)
    assert replaced
    text = text.replace(f'"{a.address}", "{a.address}"', f'"{a.address}"').replace(
        "listen 80;", "listen 127.0.0.1:@PORT@;"
    )
    text = re.sub(r'(memcached = \{) ?"[0-9.:]+" ?\}', rf'\1"127.0.0.1:{rig.memcached.port}"}}', text)
    edge = rig.edge_of(text)
    assert edge.shares(3) == {"a": 3}
    assert [headers.get("connection") for _, headers, _ in a.received] == [None] * 3


def test_the_guide_s_nginx_conf_serves_and_signs_with_the_key_that_only_root_reads(
    rig: Rig, tmp_path: Path
) -> None:
    guide = (OPENRESTY.parent / "docs/guides/nginx.md").read_text()
    written = re.search(r"```nginx\n(user www-data;.*?)```", guide, re.DOTALL)
    assert written is not None
    key, status_port = tmp_path / "key", free_port()
    key.write_text("0123456789abcdef\n")
    key.chmod(0o400)
    text = written[1]
    for before, after in (
        ("user www-data;\n", ""),
        ("pid /run/nginx.pid;", ""),
        ("include /etc/nginx/modules-enabled/*.conf;", load_modules()),
        ("10.0.0.5:11211", "127.0.0.1:11211"),
        ("127.0.0.1:8082", f"127.0.0.1:{status_port}"),
        ("/etc/steelyard/key", str(key)),
    ):
        assert before in text, before
        text = text.replace(before, after)
    servers = [rig.backend(name).address for name in "ab"]
    edge = Edge(tmp_path / "nginx", on_this_machine(text, servers, rig.memcached.port, WORKERS), WORKERS)
    try:
        assert edge.test_config() == ""
        assert {edge.get().headers["X-Steelyard-Server"] for _ in range(9)} == {"server-1", "server-2"}
        for page in ("status", "metrics"):
            with urlopen(f"http://127.0.0.1:{status_port}/steelyard/{page}") as answer:
                assert answer.status == 200
        rig.publish([("server-1", servers[0], 1, "up")], generation=1)
        rig.wait_until(lambda: edge.logged("unsigned"), "a table without signature is refused")
    finally:
        edge.stop()


def test_the_first_example_says_what_openresty_wants_of_it() -> None:
    head = re.sub(r"\n# ?", " ", (EXAMPLES / FIRST).read_text().split("\n\n")[0])
    ((before, after),) = OPENRESTY_POOL.items()
    assert f"write `{after}` for `{before}`" in head


def test_the_image_s_configuration_serves_what_its_environment_names(
    rig: Rig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = OPENRESTY / "docker"
    a = rig.backend("a")
    monkeypatch.setenv("STEELYARD_MEMCACHED", f"127.0.0.1:{rig.memcached.port}")
    included = (docker / "conf.d" / "steelyard.conf").read_text() + generated()
    text = (docker / "nginx.conf").read_text()
    for written, here in (
        ("worker_processes auto;", f"{load_modules()} daemon off; worker_processes 1;"),
        ("worker_rlimit_nofile 65536;", "user root;" if os.geteuid() == 0 else ""),
        ("worker_connections 16384;", "worker_connections 512;"),
        ("include conf.d/*.conf;", included),
        ("/usr/local/openresty/site/lualib/?.lua", f"{lua_path()};{docker}/lua/?.lua"),
        ("/dev/stderr", "@FOLDER@/error.log"),
        ("/tmp/", "@FOLDER@/"),  # noqa: S108 (the container's own)
        ("listen 8080", "listen 127.0.0.1:@PORT@"),
        ("listen 9145", f"listen 127.0.0.1:{free_port()}"),
    ):
        assert written in text, written
        text = text.replace(written, here)
    rig.publish([("a", a.address, 1, "up")], generation=1)
    edge = Edge(tmp_path / "nginx", text, workers=1)
    try:
        assert edge.test_config() == ""
        rig.wait_until(lambda: edge.get().status == 200, "the table is served")
        assert edge.shares(3) == {"a": 3}
    finally:
        edge.stop()


def test_every_example_is_in_the_readme() -> None:
    readme = (OPENRESTY / "README.md").read_text()
    assert [name for name in (*NAMES, STREAM) if f"examples/{name}" not in readme] == []
    synopsis = re.search(r"```nginx\n(.*?)```", readme, re.DOTALL)
    assert synopsis is not None
    example = (EXAMPLES / "one-upstream.conf").read_text()
    shown = [line.strip() for line in synopsis[1].splitlines() if line.strip()]
    assert [line for line in shown if line not in example] == []
