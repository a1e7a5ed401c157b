"""TLS: upstreams with servers of one address and different names share no connection."""

from pathlib import Path

import pytest

from openresty.tests.nginx_process import Answer, Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import HAS_BALANCER_KEEPALIVE
from testing.certificates import Authority
from testing.daemons import free_port

pytestmark = pytest.mark.integration

NAMES = ("one.internal", "two.internal")
NAME = "proxy_ssl_name $servers_name; proxy_set_header Host $servers_name;"
POOL = "balancer_keepalive" if HAS_BALANCER_KEEPALIVE else "keepalive"


class TwoNames:
    """An address where one.internal and two.internal have certificates of their own.

    Both answer with the name in the handshake, the client's certificate, and the number of the request in
    its connection. two.internal demands a certificate.
    """

    def __init__(self, folder: Path) -> None:
        self.ca = folder / "authority.pem"
        self.address = f"127.0.0.1:{free_port()}"
        self._folder = folder
        authority = Authority(folder)
        for name in (*NAMES, "edge.internal"):
            authority.server(name)

    def certificate(self, name: str) -> str:
        """Return the file with the certificate of a name, and its key."""
        return str(self._folder / f"{name}.pem")

    def servers(self) -> str:
        """Return the two as server blocks."""
        return "".join(
            f"""
            server {{
              listen {self.address} ssl; server_name {name};
              ssl_certificate {self.certificate(name)}; ssl_certificate_key {self.certificate(name)};
              ssl_client_certificate {self.ca}; ssl_verify_client {"off" if name == NAMES[0] else "on"};
              location / {{
                add_header X-Backend "$ssl_server_name"; add_header X-Shown "$ssl_client_s_dn";
                add_header X-Nth $connection_requests; return 200;
              }}
            }}"""
            for name in NAMES
        )


@pytest.fixture
def both(tmp_path: Path) -> TwoNames:
    return TwoNames(tmp_path)


def options(both: TwoNames, dead: str) -> str:
    """Return the upstreams `one` and `two`, each with a host, and `none` without."""
    servers = f'bootstrap = {{"{both.address}", "{dead}"}}'
    hosts = "".join(f'{name.split(".")[0]} = {{ {servers}, host = "{name}" }}, ' for name in NAMES)
    return f"upstreams = {{ {hosts} none = {{ {servers} }}, web = {{}} }},"


def location(path: str, block: str, more: str, of: str = "") -> str:
    """Return a location `/path/` that uses a block for the servers of the upstream `path`, or `of`."""
    return f"""
      location /{path}/ {{
        set $upstream {of or path}; proxy_pass https://{block}/;
        set_by_lua_block $servers_name {{ return require("steelyard").host(ngx.var.upstream) }}
        proxy_set_header Connection ""; proxy_ssl_server_name on; {more}
      }}"""


def edge_of(rig: Rig, both: TwoNames, locations: str, blocks: dict[str, str], http: str = "") -> Edge:
    """Start an nginx with these locations, and blocks that balance() an upstream by Lua's name."""
    upstreams = "".join(
        f"""
    upstream {block} {{
      server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance({lua}) }} {POOL} 16;
    }}"""
        for block, lua in blocks.items()
    )
    verified = f"proxy_ssl_verify on; proxy_ssl_trusted_certificate {both.ca};"
    servers = f"{locations} }} {verified} {http} {upstreams} {both.servers()}"
    return rig.edge(options=options(both, rig.dead_address()), servers=servers)


def seen(answer: Answer) -> tuple[str, str]:
    assert answer.status == 200, answer
    return answer.server, answer.headers.get("X-Shown", "")


def assert_apart(edge: Edge) -> None:
    """Ask both upstreams in turn, over kept connections."""
    for n in range(20):
        one, two = edge.get("/one/"), edge.get("/two/")
        assert (seen(one), seen(two)) == ((NAMES[0], ""), (NAMES[1], "CN=edge.internal"))
        assert (one.headers["X-Nth"], two.headers["X-Nth"]) == (str(n + 1),) * 2


def test_two_upstreams_at_one_address_have_their_names_and_certificates_apart(
    rig: Rig, both: TwoNames
) -> None:
    pem = both.certificate("edge.internal")
    shown = f"proxy_ssl_certificate {pem}; proxy_ssl_certificate_key {pem};"
    locations = location("one", "one", NAME) + location("two", "two", NAME + shown)
    edge = edge_of(rig, both, locations, {"one": '"one"', "two": '"two"'})
    assert_apart(edge)
    assert edge.upstream("one")["host"] == NAMES[0]
    assert (edge.upstream("none")["host"], edge.upstream("two")["retries"] > 0) == (None, True)


@pytest.mark.skipif(
    not HAS_BALANCER_KEEPALIVE,
    reason="this nginx keeps connections by address alone; STEELYARD_NGINX names another (CONTRIBUTING.md)",
)
@pytest.mark.parametrize("by", ["host", "proxy_ssl_name"])
def test_one_block_keeps_its_upstreams_apart_where_ngx_lua_has_the_pool(
    rig: Rig, both: TwoNames, by: str
) -> None:
    pem = both.certificate("edge.internal")
    of_two = f'map $uri $certificate {{ default ""; ~^/two {pem}; }}'
    shown = "proxy_ssl_certificate $certificate; proxy_ssl_certificate_key $certificate; "
    shown += "proxy_set_header Host $servers_name;"
    locations = location("one", "any", shown) + location("two", "any", shown)
    if by == "proxy_ssl_name":
        names = (f"proxy_ssl_name {name}; {shown}" for name in NAMES)
        locations = "".join(
            location(path, "any", more, of="none") for path, more in zip(("one", "two"), names, strict=True)
        )
    edge = edge_of(rig, both, locations, {"any": "ngx.var.upstream"}, of_two)
    assert_apart(edge)


@pytest.mark.skipif(HAS_BALANCER_KEEPALIVE, reason="this nginx keeps connections by name, too")
@pytest.mark.parametrize("other", ["two", "none"])
def test_one_block_serves_no_second_name_where_connections_are_kept_by_address(
    rig: Rig, both: TwoNames, other: str
) -> None:
    locations = location("one", "any", NAME) + location(other, "any", NAME)
    edge = edge_of(rig, both, locations, {"any": "ngx.var.upstream"})
    assert seen(edge.get("/one/")) == (NAMES[0], "")
    assert edge.get(f"/{other}/").status == 502
    assert edge.logged(f"upstream {other}: its upstream block keeps connections by address alone") == 1
    assert seen(edge.get("/one/")) == (NAMES[0], "")
