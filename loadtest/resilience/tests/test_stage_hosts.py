"""The address plan."""

import ipaddress

from steelyard_resilience.stage import hosts
from steelyard_resilience.stage.hosts import Settings


def test_every_host_has_an_address_of_its_own_in_the_one_network() -> None:
    addresses = hosts.addresses(Settings(servers=100))
    network = ipaddress.ip_network(f"{hosts.PREFIX}0/{hosts.PREFIX_LENGTH}")
    assert len(set(addresses.values())) == len(addresses)
    assert hosts.OUTSIDE not in addresses.values()
    assert all(ipaddress.ip_address(address) in network for address in addresses.values())


def test_hosts_are_named_after_what_runs_there() -> None:
    assert list(hosts.addresses(Settings(servers=2)).items()) == [
        ("edge", "10.213.0.10"),
        ("controller-1", "10.213.0.21"),
        ("controller-2", "10.213.0.22"),
        ("memcached", "10.213.0.31"),
        ("redis", "10.213.0.32"),
        ("server-1", "10.213.0.41"),
        ("server-2", "10.213.0.42"),
    ]


def test_the_names_of_interfaces_fit_the_kernel() -> None:
    # IFNAMSIZ is 16 with the zero at the end.
    names = hosts.addresses(Settings(servers=100))
    assert max(map(len, names)) <= 15
