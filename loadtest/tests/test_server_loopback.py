"""Who may burn CPU: only a direct request of this machine to this machine."""

import pytest
from steelyard_loadtest.server.loopback import FORWARDING, host_name, is_local, is_loopback_name


@pytest.mark.parametrize("client", ["127.0.0.1", "127.8.9.10", "::1", "localhost"])
@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8101", "localhost:8101", "[::1]", "[::1]:8101"])
def test_a_loopback_peer_that_names_a_loopback_host_is_local(client: str, host: str) -> None:
    assert is_local(client, {"host": host})


@pytest.mark.parametrize("client", [None, "", "10.0.0.1", "192.168.1.2", "0.0.0.0", "::", "fe80::1", "unix:"])  # noqa: S104
def test_a_peer_from_elsewhere_is_not_local(client: str | None) -> None:
    assert not is_local(client, {"host": "127.0.0.1:8101"})


@pytest.mark.parametrize("host", ["web", "web:80", "example.org", "127.0.0.1.example.org", "10.0.0.1:80", ""])
def test_a_foreign_host_is_not_local_because_a_load_balancer_here_sends_one(host: str) -> None:
    assert not is_local("127.0.0.1", {"host": host})


def test_a_request_without_a_host_is_not_local() -> None:
    assert not is_local("127.0.0.1", {})


@pytest.mark.parametrize("header", FORWARDING)
def test_a_forwarded_request_is_not_local_whoever_it_says_it_is_for(header: str) -> None:
    assert not is_local("127.0.0.1", {"host": "127.0.0.1", header: "127.0.0.1"})


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("localhost", "localhost"),
        ("localhost:80", "localhost"),
        ("127.0.0.1:80", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::1]:80", "::1"),
        ("[::1", "::1"),
        ("", ""),
    ],
)
def test_port_and_brackets_are_taken_off_a_host(host: str, name: str) -> None:
    assert host_name(host) == name


def test_a_name_that_only_looks_like_loopback_is_not() -> None:
    assert not any(map(is_loopback_name, ["localhost.example.org", "127.1", "2130706433", "0x7f.1"]))
