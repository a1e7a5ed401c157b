"""The guide's location for auth_request, on a real nginx."""

import http.client
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from testing.waiting import PATIENCE_S

if TYPE_CHECKING:
    from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

GUIDES = Path(__file__).parents[2] / "docs/guides"


def snippet() -> str:
    """Return the one block of nginx.conf in the guides that has a location for auth_request."""
    blocks: list[str] = [
        block
        for page in sorted(GUIDES.glob("*.md"))
        for block in re.findall(r"^```nginx\n(.*?)^```", page.read_text(encoding="utf-8"), re.S | re.M)
        if "location = /auth" in block or "auth_request /" in block
    ]
    assert len(blocks) == 1
    return blocks[0]


def test_a_request_with_a_body_passes_the_guide_s_auth_request(rig: "Rig") -> None:
    web, auth = rig.backend("web"), rig.backend("auth")
    edge = rig.edge(
        options=f"""upstreams = {{
            web = {{ bootstrap = {{"{web.address}"}} }}, auth = {{ bootstrap = {{"{auth.address}"}} }},
        }},""",
        servers=f"""
            location /guarded {{
                auth_request /auth; proxy_pass http://web/; client_max_body_size 0;
            }}
            {snippet()}
        }}
        upstream auth {{
            server 0.0.0.1; balancer_by_lua_block {{ require("steelyard").balance("auth") }} keepalive 4;
        }}""",
    )
    body = b"x" * 300_000  # beyond nginx's buffers
    for status, allowed in ((204, True), (401, False), (204, True)):
        auth.statuses["/"] = status
        client = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=PATIENCE_S / 4)
        client.request("POST", "/guarded", body)
        assert client.getresponse().status == (200 if allowed else 401)
        client.close()
    assert [(path, received) for path, _, received in web.received] == [("/", body)] * 2
    assert [received for _, _, received in auth.received] == [b""] * 3
    assert all("content-length" not in headers for _, headers, _ in auth.received)
    rig.wait_until(lambda: edge.upstream("auth")["peers"][0]["completed"] == 3, "they are counted")
    assert edge.upstream("auth")["subrequests_counted"] == 3
