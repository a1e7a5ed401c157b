"""The host of a listening socket."""

from steelyard_protocol import listening


def test_everywhere_is_every_address_of_both_families() -> None:
    assert listening.asyncio_host("*") == ""
    assert listening.grpc_target("*", 8084) == "[::]:8084"


def test_any_other_host_stays() -> None:
    assert listening.asyncio_host("127.0.0.1") == "127.0.0.1"
    assert listening.grpc_target("127.0.0.1", 8084) == "127.0.0.1:8084"
    assert listening.grpc_target("::1", 8084) == "[::1]:8084"
