"""Declarations in the weight table for nginx."""

import json

from hypothesis import given
from hypothesis import strategies as st
from steelyard_controller.declarations import upstream
from steelyard_protocol import weight_table

TIMES = {
    "interval_s": st.floats(0.1, 3600),
    "timeout_s": st.floats(0.05, 60),
    "rise": st.integers(1, 100),
    "fall": st.integers(1, 100),
}
HTTP = {
    "path": st.from_regex(r"/[!-~]{0,20}", fullmatch=True) | st.just("/" + "~" * 1000),
    "statuses": st.none() | st.lists(st.integers(100, 599), min_size=1, max_size=5),
}
HOST = st.none() | st.sampled_from(["example.org:8080", "[::1]", "x" * 253])
SERVER_NAME = st.sampled_from(["shop.example.org", "1.a", "_x", "x" * 253])


@given(
    check=st.builds(upstream.Check, host=HOST, **HTTP, **TIMES)
    | st.builds(upstream.Check, host=HOST, tls=st.just(True), tls_server_name=SERVER_NAME, **HTTP, **TIMES)
    | st.builds(upstream.Check, host=HOST, tls=st.just(True), tls_verify=st.just(False), **HTTP, **TIMES)
    | st.builds(
        upstream.Check,
        host=HOST,
        grpc_service=st.sampled_from(["", "shop.v1.Orders", "x" * 127]),
        **TIMES,
    ),
    hash_key=st.none()
    | st.sampled_from(["address", "uri", "header:X-User", "cookie:s", "argument:" + "n" * 64]),
    max_conns=st.none() | st.integers(1, 1_000_000),
)
def test_every_check_limit_and_hash_key_that_may_be_declared_survives_the_wire(
    check: upstream.Check, hash_key: str | None, max_conns: int | None
) -> None:
    declared = upstream.Upstream(check=check, hash_key=hash_key, max_conns=max_conns)
    peer = weight_table.TablePeer(id="a", address="10.0.0.1:80", weight=1, baseline=1, state="up")
    table = weight_table.WeightTable(
        upstream="web", term=3, generation=118, issued_at_ms=0, law="static", picker="chash", peers=(peer,),
        check=check.model_dump(), hash_key=declared.hash_key, max_conns=declared.max_conns,
    )  # fmt: skip
    value = weight_table.encode(table)
    assert weight_table.decode(value) == table
    assert list(json.loads(value))[-1] == "peers"  # Otherwise nginx could not read it in slices.
