"""The address plan."""

import ipaddress

import pytest
from steelyard_loadtest.stage import hosts
from steelyard_loadtest.stage.settings import Settings


def test_every_host_has_an_address_of_its_own_in_the_one_network() -> None:
    addresses = hosts.addresses(Settings(servers=hosts.MOST_SERVERS, controllers=hosts.MOST_CONTROLLERS))
    network = ipaddress.ip_network(f"{hosts.PREFIX}0/{hosts.PREFIX_LENGTH}")
    assert len(set(addresses.values())) == len(addresses)
    assert hosts.OUTSIDE not in addresses.values()
    assert all(ipaddress.ip_address(address) in network for address in addresses.values())


def test_hosts_are_named_after_what_runs_there() -> None:
    assert list(hosts.addresses(Settings(servers=2, controllers=1)).items()) == [
        ("edge", "10.213.0.10"),
        ("controller-1", "10.213.0.21"),
        ("memcached", "10.213.0.31"),
        ("redis", "10.213.0.32"),
        ("server-1", "10.213.0.41"),
        ("server-2", "10.213.0.42"),
    ]


@pytest.mark.parametrize(
    "settings",
    [Settings(servers=0), Settings(servers=101), Settings(controllers=0), Settings(controllers=10)],
)
def test_more_or_fewer_than_there_is_room_for_is_refused(settings: Settings) -> None:
    with pytest.raises(ValueError, match="a stage has 1 to"):
        hosts.addresses(settings)


def test_the_names_of_interfaces_fit_the_kernel() -> None:
    # IFNAMSIZ is 16 with the zero at the end.
    names = hosts.addresses(Settings(servers=hosts.MOST_SERVERS, controllers=hosts.MOST_CONTROLLERS))
    assert max(map(len, names)) <= 15
