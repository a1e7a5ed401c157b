"""Two installations on one Redis and one Memcached: each leads its own upstreams alone."""

import signal
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from pymemcache.client.base import Client
from steelyard_protocol import upstream_list, wire
from steelyard_protocol.upstream_list import UpstreamList

from testing.daemons import Daemon
from testing.waiting import wait_until

from ..controllers import CONFIG, LEASE_S, Cluster, Controller, cluster, has_one_writer
from ..proxies import Write

pytestmark = pytest.mark.integration

PAY = CONFIG.replace("web:", "pay:")


@pytest.fixture
def them(memcached: Daemon, redis_server: Daemon, tmp_path: Path) -> Iterator[Cluster]:
    with cluster(memcached, redis_server, tmp_path) as controllers:
        yield controllers


def listed(memcached: Daemon, installation: str) -> tuple[str, ...] | None:
    """Return the names in an installation's list of upstreams; None: there is no list."""
    client = Client(("127.0.0.1", memcached.port))
    value = client.get(wire.upstreams_key(installation))
    client.close()
    read = None if value is None else upstream_list.decode(value)
    return read.names if isinstance(read, UpstreamList) else None


def of(writes: list[Write], upstream: str) -> list[Write]:
    return [write for write in writes if write.table.upstream == upstream]


def is_served(them: Cluster, upstream: str, by: Controller, ticks: int = 5) -> None:
    """Wait until a controller has published some tables of an upstream."""
    before = len(of(them.writes.stored, upstream))

    def new() -> list[str]:
        return [write.writer for write in of(them.writes.stored, upstream)[before:]]

    wait_until(lambda: new().count(by.id) >= ticks, f"{by.id} publishes {upstream}")


def test_each_leads_its_own_upstreams_in_one_term_and_has_a_standby_of_its_own(
    them: Cluster, memcached: Daemon
) -> None:
    shop = them.controller("shop-1", "--installation", "shop")
    bank = them.controller("bank-1", "--installation", "bank", config=PAY)
    is_served(them, "web", shop)
    is_served(them, "pay", bank)
    assert (listed(memcached, "shop"), listed(memcached, "bank")) == (("web",), ("pay",))
    assert listed(memcached, "") is None
    document = shop.get("/v1/service")
    assert (document["installation"], document["role"], document["degraded"]) == ("shop", "leader", [])
    assert [row["name"] for row in shop.get("/v1/upstreams")["upstreams"]] == ["web"]
    assert [row["name"] for row in bank.get("/v1/upstreams")["upstreams"]] == ["pay"]

    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"http://127.0.0.1:{bank.port}/v1/upstreams/web")
    assert b"no upstream is called web in the installation bank; there are: pay" in missing.value.read()

    # A standby answers for its installation, and takes over that one alone.
    standby = them.controller("bank-2", "--installation", "bank", config="{}")
    wait_until(lambda: standby.get("/v1/service")["role"] == "standby", "it stands by")
    assert standby.get("/v1/service")["leader"]["id"] == "bank-1"
    assert [row["name"] for row in standby.get("/v1/upstreams")["upstreams"]] == ["pay"]
    bank.signal(signal.SIGKILL)
    is_served(them, "pay", standby)
    is_served(them, "web", shop)
    for upstream in ("web", "pay"):
        has_one_writer(of(them.writes.stored, upstream))
    assert len({write.table.term for write in of(them.writes.stored, "web")}) == 1

    # A paused leader without a standby goes on alone when it wakes.
    shop.signal(signal.SIGSTOP)
    is_served(them, "pay", standby, ticks=round(2 * LEASE_S / 0.1))
    shop.signal(signal.SIGCONT)
    is_served(them, "web", shop)
    has_one_writer(of(them.writes.stored, "web"))
    assert shop.get("/v1/service")["degraded"] == []


def test_two_control_planes_without_names_on_one_memcached_are_a_fault_that_says_so(
    them: Cluster, redis_server: Daemon
) -> None:
    one = them.controller("one")
    other = them.controller("other", "--state-url", f"redis://{redis_server.address}/1", config=PAY)
    for each in (one, other):

        def says(each: Controller = each) -> bool:
            faults = (each.get("/v1/service") or {}).get("degraded", [])
            return any("another control plane uses this Memcached" in fault for fault in faults)

        wait_until(says, f"{each.id} names the fault")
    assert one.says("Memcached holds a list of upstreams of term")


def test_an_upstream_of_two_installations_is_a_fault_that_names_it(them: Cluster) -> None:
    one = them.controller("one", "--installation", "shop")
    them.controller("other", "--installation", "bank")

    def named() -> bool:
        faults = (one.get("/v1/service") or {}).get("degraded", [])
        return any("(web), which no controller of this Redis has written" in fault for fault in faults)

    wait_until(named, "the fault names the upstream")
