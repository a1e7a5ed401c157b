"""Keys derived from the shared one, on the examples of the Lua specs."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from steelyard_protocol import derived_keys, signature

EXAMPLES = json.loads((Path(__file__).parents[2] / "docs/contract/derived-keys.json").read_text())
SHARED = EXAMPLES["shared"].encode()
NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,9}", fullmatch=True)


@pytest.mark.parametrize("vector", EXAMPLES["hkdf"], ids=lambda vector: vector["name"])
def test_it_is_hkdf_sha256_of_rfc_5869(vector: dict[str, str]) -> None:
    secret, salt, info = (bytes.fromhex(vector[part]) for part in ("secret", "salt", "info"))
    assert derived_keys.hkdf(secret, salt, info).hex() == vector["okm"]


@pytest.mark.parametrize(("name", "key"), EXAMPLES["keys"].items())
def test_a_key_is_the_examples(name: str, key: str) -> None:
    assert derived_keys.derive(SHARED, name).decode() == key


def test_the_names_are_the_examples() -> None:
    assert derived_keys.agent("web", "server-1") in EXAMPLES["keys"]
    assert derived_keys.lb("edge-1") in EXAMPLES["keys"]
    assert derived_keys.signers("agent web/server-1") == ("agent web/server-1", derived_keys.AGENTS)
    assert derived_keys.AGENTS in EXAMPLES["keys"]
    for name in ("lb agents", "tables", "token web/server-1", derived_keys.AGENTS):
        assert derived_keys.signers(name) == (name,)
    balancer, token = EXAMPLES["load_balancer"], EXAMPLES["token"]
    assert derived_keys.of_load_balancer(SHARED, balancer["name"]) == balancer["key"]
    assert derived_keys.token(SHARED, token["upstream"], token["peer"]) == token["token"]


def test_a_load_balancer_s_key_is_taken_apart_and_the_shared_one_serves_for_all() -> None:
    given = derived_keys.load_balancer_keys(EXAMPLES["load_balancer"]["key"].encode())
    own = derived_keys.derive(SHARED, derived_keys.lb(EXAMPLES["load_balancer"]["name"]))
    of_tables = derived_keys.derive(SHARED, derived_keys.TABLES)
    assert (given.tables, given.reports) == ((of_tables,), own)
    shared = derived_keys.load_balancer_keys(SHARED)
    assert (shared.tables, shared.reports) == ((SHARED, of_tables), SHARED)
    with pytest.raises(ValueError, match="copy it whole"):
        derived_keys.load_balancer_keys(EXAMPLES["load_balancer"]["key"].encode()[:-1])


@pytest.mark.parametrize("example", EXAMPLES["values"], ids=lambda example: example["signed_by"])
def test_a_value_opens_with_the_key_that_signed_it_and_no_other(example: dict[str, str]) -> None:
    keys = {"shared": EXAMPLES["shared"], **EXAMPLES["keys"]}
    opened = {
        name
        for name, key in keys.items()
        if isinstance(signature.open_value(key.encode(), example["value"].encode()), bytes)
    }
    assert opened == {example["signed_by"]}


@given(st.lists(st.tuples(NAMES, NAMES), min_size=2, max_size=2, unique=True))
def test_two_servers_never_have_one_key_or_one_token(servers: list[tuple[str, str]]) -> None:
    assert len({derived_keys.derive(SHARED, derived_keys.agent(*each)) for each in servers}) == 2
    assert len({derived_keys.token(SHARED, *each) for each in servers}) == 2


@given(NAMES, NAMES)
def test_a_token_fits_into_a_header_and_names_its_server(upstream: str, peer: str) -> None:
    token = derived_keys.token(SHARED, upstream, peer)
    assert re.fullmatch(r"[A-Za-z0-9._~+/-]+=*", token)
    assert token.split("/")[:2] == [upstream, peer]
