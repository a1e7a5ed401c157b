"""The probe of a half-open server goes to a request that shows whether the server answers."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from openresty.tests.backend import Backend
    from openresty.tests.nginx_process import Edge
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

# Each of these uses `web` without a log phase, or ends before its request is sent to it.
LOCATIONS = """
  location = /auth { internal; proxy_pass http://web/; }
  location = /guarded { auth_request /auth; proxy_pass http://web/; }
  location = /mirrored { mirror /auth; proxy_pass http://web/; }
  location = /included { ssi on; default_type text/html; return 200 '<!--#include virtual="/auth" -->'; }
  location = /captured {
    access_by_lua_block { ngx.location.capture("/auth") } proxy_pass http://web/;
  }
  location = /refused {
    set_by_lua_block $block { return require("steelyard").shard("web") } deny all; proxy_pass http://$block/;
  }
  location = /sub_only { auth_request /auth; content_by_lua_block { ngx.exit(204) } }
  location = /logged { internal; log_subrequest on; proxy_pass http://web/; }
  location = /logged_sub_only { auth_request /logged; content_by_lua_block { ngx.exit(204) } }
}
upstream web_00 { server 0.0.0.1; balancer_by_lua_block { require("steelyard").balance("web") } }
"""

# Each path, and whether its request itself is sent to the upstream.
PATHS = {"/guarded": True, "/mirrored": True, "/captured": True, "/included": False, "/refused": False}


def take_out(rig: "Rig", edge: "Edge", server: "Backend") -> None:
    """Fail the server for a request, and wait until it is half-open and well."""
    outs = edge.logged(f": {server.name} (")
    server.stop()
    rig.wait_until(lambda: edge.get() and edge.logged(f": {server.name} (") > outs, "it is out")
    server.restart()
    rig.wait_until(
        lambda: (edge.peer(server.name)["health"], edge.peer(server.name)["out_for_s"]) == ("fails", None),
        "it is half-open",
    )
    server.received.clear()


def test_a_request_whose_outcome_stays_unknown_takes_no_probe(rig: "Rig") -> None:
    a, b = rig.backend("a"), rig.backend("b")
    rig.publish([(one.name, one.address, 1, "up") for one in (a, b)], generation=1)
    options = "upstreams = { web = { max_fails = 1, fail_timeout_s = 0.5, eject = false, shards = 1 } },"
    edge = rig.edge(options=options, servers=LOCATIONS)
    edge.wait_for(1)
    for path, is_sent in PATHS.items():
        take_out(rig, edge, b)
        first = edge.get(path)
        assert (first.server if is_sent else edge.get().server) == "b", path
        rig.wait_until(lambda: edge.peer("b")["health"] == "ok", f"{path}: it is back")

    # Without any other request the server stays out: these would never show that it answers.
    take_out(rig, edge, b)
    for _ in range(20):
        assert edge.get("/sub_only").status == 204
    assert b.received == []
    # Subrequests with a log phase bring it back.
    rig.wait_until(
        lambda: edge.get("/logged_sub_only").status == 204 and edge.peer("b")["health"] == "ok", "it is back"
    )
