"""The servers behind the proxies, and the contenders."""

import socket
from collections import Counter

import pytest
from steelyard_loadtest.dataplane.contenders import CONTENDERS, peers


@pytest.mark.parametrize("count", [1, 3, 100, 2000, 70_000])
def test_every_server_has_a_loopback_address_of_its_own(count: int) -> None:
    addresses = {peer.address for peer in peers(count, 8000)}
    assert len(addresses) == count
    for address in addresses:
        host, port = address.split(":")
        assert socket.inet_aton(host)[0] == 127
        assert not host.startswith("127.0.0.")
        assert not host.endswith((".0", ".255"))
        assert port == "8000"


def test_the_addresses_and_weights_begin_like_this() -> None:
    assert [(peer.id, peer.address, peer.weight) for peer in peers(3, 8000)] == [
        ("server-00000", "127.1.0.1:8000", 1),
        ("server-00001", "127.1.0.2:8000", 8),
        ("server-00002", "127.1.0.3:8000", 5),
    ]


def test_weights_from_1_to_10_are_equally_many() -> None:
    servers = peers(2000, 8000)
    assert Counter(peer.weight for peer in servers) == dict.fromkeys(range(1, 11), 200)
    assert sum(peer.weight for peer in servers) == 11_000


def test_names_and_titles_tell_contenders_apart() -> None:
    assert len({contender.name for contender in CONTENDERS}) == len(CONTENDERS)
    assert len({contender.title for contender in CONTENDERS}) == len(CONTENDERS)


def test_every_proxy_is_given_the_servers_weights() -> None:
    assert all(contender.informed for contender in CONTENDERS if contender.program != "direct")
