"""`explain = true`: the access log has the server of a request, the number of tries, and the reason."""

import hashlib
import hmac
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from steelyard_loadtest.machine import picker_list

from openresty.tests.nginx_process import Edge
from openresty.tests.rig import Rig
from openresty.tests.test_examples import started as started

pytestmark = pytest.mark.integration

LOGGED = """}
  log_format why '$uri $steelyard_server $steelyard_tries [$steelyard_why]';
  server {
    listen 127.0.0.1:@PORT@; server_name why;
    set $steelyard_server ""; set $steelyard_tries ""; set $steelyard_why "";
    access_log @FOLDER@/why.log why;
    location / { proxy_pass http://web; }
  }"""


def lines_of(rig: Rig, file: Path, count: int) -> list[str]:
    rig.wait_until(
        lambda: file.exists() and file.read_text().count("\n") >= count, f"{count} lines are logged"
    )
    return file.read_text().splitlines()


def explained(rig: Rig, edge: Edge, paths: list[str], headers: dict[str, str] | None = None) -> list[str]:
    """Ask for the paths, one after the other; return the access log's entry of each."""
    log = edge.log.parent / "why.log"
    before = log.read_text().count("\n") if log.exists() else 0
    for path in paths:
        edge.get(path, {"Host": "why"} | (headers or {}))
    return lines_of(rig, log, before + len(paths))[before:]


def edge_that_explains(rig: Rig, settings: str = "", *, picker: str = "vnswrr2", extra: str = "") -> Edge:
    made = [rig.backend(name) for name in "ab"]
    rows = [(one.name, one.address, weight, "up") for one, weight in zip(made, (3, 1), strict=True)]
    rig.publish(
        [*rows, *([(extra, rig.dead_address(), 1, "up")] if extra else [])], generation=1, picker=picker
    )
    web = f'explain = true, hash_key = "header:X-Key", {settings}'
    edge = rig.edge(options=f"upstreams = {{ web = {{ {web} }} }},", servers=LOGGED)
    edge.wait_for(1)
    return edge


@pytest.mark.parametrize("picker", picker_list.own())
def test_every_picker_s_choice_is_in_the_access_log_with_what_it_saw(rig: Rig, picker: str) -> None:
    edge = edge_that_explains(rig, picker=picker)
    lines = explained(rig, edge, ["/x"] * 6, {"X-Key": "k"})
    seen = r"(a|b) \d+/[13](, (a|b) \d+/[13])?"
    wanted = picker if picker == "vnswrr" else rf"{picker}(: {seen})?"
    assert [line for line in lines if not re.fullmatch(rf"/x [ab] 1 \[{wanted}\]", line)] == []
    if picker != "vnswrr":
        assert any(": " in line for line in lines)


def test_each_try_has_its_reason(rig: Rig) -> None:
    edge = edge_that_explains(rig, "max_fails = 0, eject = false", picker="vnswrr", extra="dead")
    lines = explained(rig, edge, ["/"] * 10)
    retried = [line for line in lines if " 2 [" in line]
    assert retried
    # The first was chosen by its weight alone, the second as the least busy of the rest.
    pattern = r"/ ([ab]) 2 \[vnswrr \| retry: (a|b) [\d.]+/\d(, (a|b) [\d.]+/\d)?\]"
    assert [line for line in retried if not re.fullmatch(pattern, line)] == []


def test_a_session_is_a_reason(rig: Rig) -> None:
    edge = edge_that_explains(rig, 'sticky = { cookie = "route" }')
    lines = explained(rig, edge, ["/"] * 3, {"Cookie": f"route={edge_value('b')}"})
    assert lines == ["/ b 1 [session]"] * 3


def edge_value(peer: str) -> str:
    """Return the session cookie's value of a server."""
    return hmac.new(b"", peer.encode(), hashlib.sha256).hexdigest()[:16]


def test_without_the_variables_it_is_told_how_to_set_them(rig: Rig) -> None:
    a = rig.backend("a")
    edge = rig.edge(options=f'upstreams = {{ web = {{ explain = true, bootstrap = {{ "{a.address}" }} }} }},')
    assert [edge.get("/").status for _ in range(3)] == [200] * 3
    rig.wait_until(lambda: edge.logged("explain = true needs three variables: write set") == 1, "it is told")
    assert edge.peer(a.address)["in_flight"] == 0


def test_the_example_writes_one_line_of_json_a_request(
    rig: Rig, started: Callable[..., Edge], tmp_path: Path
) -> None:
    log = tmp_path / "explained.log"
    edge = started("several-upstreams.conf", instead={"/var/log/nginx/explained.log": str(log)})
    servers = {edge.get("/page?a=1").server for _ in range(8)}
    lines = [json.loads(line) for line in lines_of(rig, log, 8)]
    assert servers == {"a", "b"}
    assert {line["server"] for line in lines} == {"server-1", "server-2"}
    assert {(line["uri"], line["status"], line["tries"]) for line in lines} == {("/page?a=1", 200, "1")}
    assert all(line["why"].startswith("vnswrr2: server-") for line in lines)
