"""Weight tables as Envoy's endpoints."""

from typing import Any

from msgspec.structs import replace
from steelyard_controller.xds import assignments
from steelyard_controller.xds.assignments import MOST_IN_ALL, Assignment
from steelyard_controller.xds.xds_messages import (
    EDS_TYPE,
    ClusterLoadAssignment,
    DeltaDiscoveryResponse,
    DiscoveryResponse,
)

from .tables import peer, table


def _read(made: Assignment) -> Any:
    (resource,) = DiscoveryResponse.FromString(made.whole).resources
    assert resource.type_url == EDS_TYPE
    return ClusterLoadAssignment.FromString(resource.value)


def _rows(made: Assignment) -> list[tuple[str, int, int, int, int]]:
    """Return address, port, weight, health and priority of each endpoint."""
    return [
        (
            each.endpoint.address.socket_address.address,
            each.endpoint.address.socket_address.port_value,
            each.load_balancing_weight.value,
            each.health_status,
            locality.priority,
        )
        for locality in _read(made).endpoints
        for each in locality.lb_endpoints
    ]


def test_drained_and_down_servers_are_left_out_after_a_farewell_and_backups_are_a_priority() -> None:
    made = assignments.assignment(
        table(
            peer("a", "10.0.0.1:80", 20),
            peer("b", "[fd00::2]:8080", 30, "drain"),
            peer("c", "10.0.0.3:80", 40, "down"),
            peer("d", "10.0.0.4:80", 50, "backup"),
        )
    )
    assert _read(made).cluster_name == "web"
    assert _rows(made) == [("10.0.0.1", 80, 20, 0, 0), ("10.0.0.4", 80, 50, 0, 1)]
    assert made.out == {"[fd00::2]:8080", "10.0.0.3:80"}
    assert _rows(made.farewell(made.out)) == [
        ("10.0.0.1", 80, 20, 0, 0),
        ("fd00::2", 8080, 30, 2, 0),
        ("10.0.0.3", 80, 40, 2, 0),
        ("10.0.0.4", 80, 50, 0, 1),
    ]


def test_backups_alone_are_the_first_priority_which_envoy_demands() -> None:
    assert [row[-1] for row in _rows(assignments.assignment(table(peer("a", state="backup"))))] == [0]


def test_an_upstream_without_servers_has_no_endpoints() -> None:
    assert _rows(assignments.assignment(table())) == []


def test_a_farewell_of_all_servers_lets_envoy_use_none_of_them() -> None:
    made = assignments.assignment(table(peer("a", state="drain"), peer("b", "10.0.0.2:80", state="down")))
    assert _rows(made) == []
    (drop,) = _read(made.farewell(made.out)).policy.drop_overloads
    assert drop.drop_percentage.numerator == 100
    spared = assignments.assignment(table(peer("a", state="drain"), peer("b", "10.0.0.2:80", state="backup")))
    assert not _read(spared.farewell(spared.out)).policy.drop_overloads
    assert not _read(made).policy.drop_overloads


def test_the_weight_of_a_server_that_is_out_is_no_news_to_envoy() -> None:
    def made(weight: int) -> Assignment:
        return assignments.assignment(table(peer("a"), peer("b", "10.0.0.2:80", weight, "down")))

    assert made(20).version == made(30).version


def test_one_healthy_server_of_many_is_enough() -> None:
    peers = [peer(f"s{n}", f"10.0.0.{n}:80") for n in range(1, 51)]
    assert _read(assignments.assignment(table(*peers))).policy.overprovisioning_factor.value == 5000


def test_weights_beyond_envoys_sum_keep_their_proportions_and_none_is_0() -> None:
    heavy = [peer(f"s{n}", f"10.0.{n // 256}.{n % 256}:80", 1_000_000) for n in range(5000)]
    weights = [row[2] for row in _rows(assignments.assignment(table(*heavy, peer("light", weight=1))))]
    assert sum(weights) <= MOST_IN_ALL
    assert weights[-1] == 1
    assert set(weights[:-1]) == {weights[0]}
    assert weights[0] > 800_000


def test_the_version_is_of_what_envoy_has_and_not_of_the_tick() -> None:
    first = assignments.assignment(table(peer("a"), generation=1))
    assert assignments.assignment(table(peer("a"), term=9, generation=2)) == first
    assert assignments.assignment(table(peer("a", weight=21))).version != first.version
    (resource,) = DeltaDiscoveryResponse.FromString(first.delta).resources
    assert (resource.name, resource.version) == ("web", first.version)
    assert ClusterLoadAssignment.FromString(resource.resource.value) == _read(first)


def test_servers_of_a_zone_are_a_locality_and_none_where_there_are_no_zones() -> None:
    rows = [
        replace(peer(name, f"10.0.0.{n}:80"), zone=zone)
        for n, (name, zone) in enumerate(zip("abc", "xyx", strict=True), 1)
    ]
    made = assignments.assignment(table(*rows, peer("d", "10.0.0.4:80")))
    assert [(each.locality.zone, len(each.lb_endpoints)) for each in _read(made).endpoints] == [
        ("x", 2), ("y", 1), ("", 1),
    ]  # fmt: skip
    (plain,) = _read(assignments.assignment(table(peer("a"), peer("b")))).endpoints
    assert not plain.HasField("locality")
    moved = table(replace(rows[0], zone="y"), *rows[1:])
    assert not assignments.differs_little(table(*rows), moved)
