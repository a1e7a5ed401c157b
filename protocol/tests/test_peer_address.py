import ipaddress
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol.peer_address import (
    Endpoint,
    canonical,
    canonical_declared,
    join,
    parse,
    same,
    split,
)
from steelyard_protocol.peer_address import is_name as tells_names

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs/contract/addresses.json").read_text("utf-8"))
LONGEST = ".".join(["a" * 63, "b" * 63, "c" * 63, "d" * 61])


@pytest.mark.parametrize(
    "example", [*EXAMPLES["accepted"], *EXAMPLES["names"]], ids=lambda example: example["typed"]
)
def test_an_address_has_one_canonical_spelling(example: dict[str, str]) -> None:
    spellings = {example["typed"], example["canonical"], example.get("nginx", example["canonical"])}
    assert {canonical(each) for each in spellings} == {example["canonical"]}
    assert {canonical_declared(each) for each in spellings} == {example["canonical"]}
    assert all(same(one, other) for one in spellings for other in spellings)


@pytest.mark.parametrize("address", EXAMPLES["refused"])
def test_neither_reader_takes_what_the_other_refuses(address: str) -> None:
    with pytest.raises(ValueError, match=r"no port|1\.\.65535|IP address"):
        canonical(address)


@given(st.ip_addresses(), st.integers(1, 65535), st.booleans(), st.booleans(), st.integers(1, 5))
def test_whatever_the_spelling_the_address_is_the_same(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int, exploded: bool, upper: bool, digits: int
) -> None:
    host = ip.exploded if exploded else str(ip)
    spelled = f"{join(host.upper() if upper else host, 0)[:-1]}{port:0{digits}}"
    shortest = getattr(ip, "ipv4_mapped", None) or ip
    assert canonical(spelled) == canonical_declared(spelled) == join(str(shortest), port)
    assert same(spelled, join(str(ip), port))
    assert not same(spelled, join(str(ip), port % 65535 + 1))


def test_takes_ipv4_and_bracketed_ipv6() -> None:
    assert split("10.0.0.11:80") == ("10.0.0.11", 80)
    assert split("[fd00::13]:8080") == ("fd00::13", 8080)


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("10.0.0.11", "has no port"),
        ("10.0.0.11:0", r"1\.\.65535"),
        ("10.0.0.11:٣", r"1\.\.65535"),
        ("web-1:80", "names are not resolved"),
        ("fd00::13:80", "in brackets"),
        ("[fe80::1%eth0]:80", "leave out the zone"),
        ("", "has no port"),
    ],
)
def test_says_what_is_wrong_with_an_address(address: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        split(address)


@pytest.mark.parametrize(
    ("address", "host", "port", "is_name"),
    [
        ("10.0.0.11:80", "10.0.0.11", 80, False),
        ("[FD00::0:13]:8080", "fd00::13", 8080, False),
        ("web-1:80", "web-1", 80, True),
        ("Web-1.Example:443", "web-1.example", 443, True),
        ("web-1.example.:80", "web-1.example.", 80, True),
        ("3com.example:80", "3com.example", 80, True),
        ("1a:80", "1a", 80, True),
        ("localhost:65535", "localhost", 65535, True),
        (f"{LONGEST}:1", LONGEST, 1, True),
    ],
)
def test_parses_an_address_or_a_name(address: str, host: str, port: int, is_name: bool) -> None:
    assert parse(address) == Endpoint(host=host, port=port, is_name=is_name)
    assert tells_names(address) is is_name


@given(st.text(alphabet="0123456789abx.:[]-", max_size=24), st.integers(1, 65535))
def test_whatever_is_taken_is_told_from_a_name_without_parsing(host: str, port: int) -> None:
    address = f"{host}:{port}"
    try:
        endpoint = parse(address)
    except ValueError:
        return
    assert tells_names(address) is endpoint.is_name


@pytest.mark.parametrize(
    ("address", "remedy"),
    [
        ("web-1", "has no port"),
        ("web-1:", r"1\.\.65535"),
        ("web-1:http", r"1\.\.65535"),
        (":80", "cannot be a part of a name"),
        (".:80", "cannot be a part of a name"),
        ("web..example:80", "'' in 'web..example:80' cannot be a part of a name"),
        ("-web:80", "no dash first or last"),
        ("web-:80", "no dash first or last"),
        ("web_1:80", "'web_1' in 'web_1:80' cannot be a part of a name"),
        ("wéb:80", "letters, digits and dashes"),
        ("web-1\n:80", "letters, digits and dashes"),
        ("http://web-1:80", "in brackets"),
        ("a" * 64 + ":80", "1 to 63 letters"),
        (".".join(["a" * 63] * 3 + ["b" * 62]) + ":80", "more than 253 characters"),
        ("10.0.0:80", "does not end in a number"),
        ("10.0.0.256:80", "does not end in a number"),
        ("010.0.0.1:80", "does not end in a number"),
        ("127.1:80", "does not end in a number"),
        ("0x7f000001:80", "does not end in a number"),
        ("fd00::13:80", "in brackets"),
        ("[10.0.0.1]:80", "in brackets"),
        ("[web-1]:80", "in brackets"),
        ("[fe80::1%eth0]:80", "leave out the zone"),
    ],
)
def test_says_what_is_wrong_with_a_name(address: str, remedy: str) -> None:
    with pytest.raises(ValueError, match=remedy):
        parse(address)


@given(st.text("aA1-.:[]%_é", max_size=300), st.integers(0, 70000))
def test_whatever_is_parsed_is_an_endpoint_or_a_mistake_that_is_named(host: str, port: int) -> None:
    try:
        address = parse(f"{host}:{port}")
    except ValueError:
        return
    assert address.port == port
    assert address.is_name or split(join(address.host, address.port)) == (address.host, address.port)
    assert parse(f"{address.host}:{port}" if address.is_name else join(address.host, port)) == address


@given(st.ip_addresses(), st.integers(1, 65535))
def test_what_is_joined_is_what_is_split(
    ip: ipaddress.IPv4Address | ipaddress.IPv6Address, port: int
) -> None:
    assert split(join(str(ip), port)) == (str(getattr(ip, "ipv4_mapped", None) or ip), port)
