"""Load balancers with `subset_size`: each uses some servers, and together they use all by weight."""

import psutil
import pytest

from openresty.tests.backend import Backend
from openresty.tests.nginx_process import Edge, one_upstream
from openresty.tests.rig import Rig

pytestmark = pytest.mark.integration

LBS = ("edge-1", "edge-2", "edge-3", "edge-4")
SERVERS, SIZE = 12, 5  # each of four load balancers begins at another quarter of the ring, and has half of it
TOTAL = 4 * (20 + 20 + 40)


def servers(rig: Rig) -> list[Backend]:
    """Start servers of two sizes, and publish them for four load balancers."""
    made = [rig.backend(f"server-{number:02}") for number in range(1, SERVERS + 1)]
    publish(rig, made, generation=1)
    return made


def publish(rig: Rig, backends: list[Backend], *, generation: int, reporters: tuple[str, ...] = LBS) -> None:
    """Write a table with each third server twice as large as the others."""
    rows = [(each.name, each.address, 40 if at % 3 == 2 else 20, "up") for at, each in enumerate(backends)]
    rig.publish(rows, generation=generation, by_size=True, reporters=list(reporters))


def balancer(rig: Rig, name: str, settings: str = "", workers: int = 1, generation: int = 1) -> Edge:
    """Start an nginx of this name; wait for a table, unless its generation is 0."""
    options = f"upstreams = {{ web = {{ subset_size = {SIZE}, {settings} }} }},"
    http = one_upstream(rig.memcached.port, options, "}").replace('lb = "edge-1"', f'lb = "{name}"')
    edge = rig.edge_of(http, folder=name, workers=workers)
    if generation:
        edge.wait_for(generation)
    return edge


def subset(edge: Edge) -> set[str]:
    """Return the servers of its subset."""
    return {peer["id"] for peer in edge.upstream()["peers"]}


def connected(edge: Edge, backends: list[Backend]) -> set[str]:
    """Return the servers that it has connections to."""
    ports = {
        connection.raddr.port
        for pid in edge.worker_pids()
        for connection in psutil.Process(pid).net_connections("tcp4")
        if connection.status == psutil.CONN_ESTABLISHED
    }
    return {backend.name for backend in backends if int(backend.address.split(":")[1]) in ports}


def test_each_has_connections_to_its_subset_and_all_servers_get_their_weights(rig: Rig) -> None:
    backends = servers(rig)
    counts: dict[str, int] = {}
    subsets = []
    for name in LBS:
        edge = balancer(rig, name)
        for server, answered in edge.shares(2 * TOTAL).items():
            counts[server] = counts.get(server, 0) + answered
        subsets.append(subset(edge))
        assert connected(edge, backends) == subsets[-1], name
    assert all(SIZE <= len(each) <= SIZE + 3 for each in subsets), subsets
    assert len(set(map(frozenset, subsets))) == len(LBS)
    for at, backend in enumerate(backends):
        assert counts[backend.name] == pytest.approx(8 * (40 if at % 3 == 2 else 20), rel=0.06)


def test_checks_go_to_the_subset_alone(rig: Rig) -> None:
    backends = servers(rig)
    edge = balancer(rig, "edge-2", 'check = { path = "/healthz", interval_s = 0.1 }')
    ours = subset(edge)

    def checked() -> set[str]:
        return {each.name for each in backends if any(path == "/healthz" for path, _, _ in each.received)}

    rig.wait_until(lambda: checked() >= ours, "every server of the subset is checked")
    assert checked() == ours
    assert edge.upstream()["subset"] == {
        "servers": len(ours), "of": SERVERS, "balancers": 4, "widened_by": 0,
        "place": edge.upstream()["subset"]["place"],
    }  # fmt: skip


def test_a_subset_widens_when_its_servers_die_and_no_request_fails(rig: Rig) -> None:
    backends = servers(rig)
    patient = "retries = 11, retry_budget = false, fail_timeout_s = 1, eject = false"
    edge = balancer(rig, "edge-3", patient, workers=2)
    usual = subset(edge)
    others = {each.name for each in backends} - usual
    dying = [each for each in backends if each.name in usual][:-1]
    with edge.under_load(2, pause_s=0.003) as statuses:
        for backend in dying:
            backend.stop()
        rig.wait_until(lambda: edge.upstream()["subset"]["widened_by"] >= 2, "the subset is widened")
        rig.wait_until(lambda: connected(edge, backends) & others, "servers outside the subset are used")
        assert usual < subset(edge)
        for backend in dying:
            backend.restart()
        rig.wait_until(lambda: subset(edge) == usual, "the subset is back to normal")
    assert set(statuses) == {200}, edge.log.read_text()
    rig.wait_until(lambda: set(edge.shares(60)) <= usual, "both workers keep to the subset")


def test_a_load_balancer_that_the_table_does_not_name_yet_has_the_subset_that_it_will_have(rig: Rig) -> None:
    backends = servers(rig)
    edge = balancer(rig, "edge-5")
    before = subset(edge)
    assert len(before) < SERVERS
    publish(rig, backends, generation=2, reporters=(*LBS, "edge-5"))
    edge.wait_for(2)
    assert subset(edge) == before


def test_a_controller_tells_who_there_is_and_subsets_make_room_for_one_that_comes(rig: Rig) -> None:
    backends = [rig.backend(f"server-{number:02}") for number in range(1, 21)]

    def see_each_other(edges: list[Edge]) -> bool:
        known = [edge.upstream() for edge in edges]
        balancers = [each.get("subset", {}).get("balancers") for each in known if each["reports_read"]]
        return balancers == [len(edges)] * len(edges)

    with rig.controller(backends):
        edges = [balancer(rig, name, generation=0) for name in LBS]
        rig.wait_until(lambda: see_each_other(edges), "all four are in the table")
        before = [subset(edge) for edge in edges]
        assert set.union(*before) == {each.name for each in backends}
        with edges[0].under_load(1, pause_s=0.003) as statuses:
            edges.append(balancer(rig, "edge-5", generation=0))
            rig.wait_until(lambda: see_each_other(edges), "all five are in the table")
        assert set(statuses) == {200}
        after = [subset(edge) for edge in edges]
        assert set.union(*after) == {each.name for each in backends}
        assert all(SIZE <= len(each) < 12 for each in after), after
        # At each end at most a fifth of the ring is another's.
        assert all(len(new - old) <= 5 for old, new in zip(before, after[:4], strict=True)), (before, after)
