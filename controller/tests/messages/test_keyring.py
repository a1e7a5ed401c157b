"""The signing key of each message, while senders move from the shared key to their own."""

import pytest
from steelyard_controller.messages.inbox import Inbox, receive
from steelyard_controller.messages.keyring import DerivedKeys, Keyring
from steelyard_controller.messages.received import ReadContext
from steelyard_protocol import derived_keys, signature
from steelyard_protocol.wire import Refused

from ..examples import report, sample

SHARED = b"k" * 32
AGENT_A = derived_keys.derive(SHARED, "agent web/a")
AGENT_B = derived_keys.derive(SHARED, "agent web/b")
AGENTS = derived_keys.derive(SHARED, "agents")
EDGE = derived_keys.derive(SHARED, "lb edge-1")
TABLES = derived_keys.derive(SHARED, "tables")


def reason(keys: Keyring, key: bytes, name: str) -> str | None:
    text = keys.open_value(signature.sign(key, b"{}"), name)
    return text.reason if isinstance(text, Refused) else None


@pytest.mark.parametrize(
    ("derived", "key", "refused"),
    [
        ("off", SHARED, None),
        ("off", AGENT_A, "signature"),
        ("off", AGENTS, "signature"),
        ("accept", SHARED, None),
        ("accept", AGENT_A, None),
        ("accept", AGENTS, None),
        ("accept", AGENT_B, "signature"),
        ("accept", EDGE, "signature"),
        ("accept", TABLES, "signature"),
        ("require", SHARED, "signature"),
        ("require", AGENT_A, None),
        ("require", AGENTS, None),
        ("require", AGENT_B, "signature"),
    ],
)
def test_a_sample_of_a_server_is_taken_with_these_keys(
    derived: DerivedKeys, key: bytes, refused: str | None
) -> None:
    assert reason(Keyring(shared=SHARED, derived=derived), key, "agent web/a") == refused


@pytest.mark.parametrize(("derived", "signs"), [("off", SHARED), ("accept", TABLES), ("require", TABLES)])
def test_tables_are_signed_with_their_own_key_once_derived_keys_are_taken(
    derived: DerivedKeys, signs: bytes
) -> None:
    keys = Keyring(shared=SHARED, derived=derived)
    assert keys.of_tables == signs
    assert reason(keys, signs, "tables") is None
    # From the previous leader, which does not know derived keys yet.
    assert (reason(keys, SHARED, "tables") is None) == (derived != "require")
    for server in (AGENT_A, AGENTS, EDGE):
        assert reason(keys, server, "tables") == "signature"


def test_without_a_key_nothing_is_signed() -> None:
    assert Keyring().of_tables is None
    assert Keyring().open_value(b"{}", "agent web/a") == b"{}"
    assert reason(Keyring(), AGENT_A, "agent web/a") == "signed"


def test_a_server_that_is_taken_over_speaks_for_itself_alone() -> None:
    def inbox(a: bytes, b: bytes) -> Inbox:
        values = {"a": signature.sign(a, sample("a")), "b": signature.sign(b, sample("b"))}
        keys = Keyring(shared=SHARED, derived="require")
        reports = {"edge-1": signature.sign(a, report())}
        return receive(Inbox(), ReadContext("web", 1.0, keys), samples=values, reports=reports)

    received = inbox(AGENT_A, AGENT_A)
    assert set(received.samples) == {"a"}
    assert received.reports == {}
    assert received.refused == {"signature": 2}
    assert received.refusals["sample of b"].detail == (
        "it is not signed with its own key, or was changed on the way: `steelyard keys agent web/b` prints it"
    )
    assert "`steelyard keys lb edge-1`" in received.refusals["traffic report of edge-1"].detail


def test_a_node_that_is_taken_over_speaks_for_servers_alone() -> None:
    values = {name: signature.sign(AGENTS, sample(name)) for name in ("a", "b")}
    reports = {"edge-1": signature.sign(AGENTS, report())}
    keys = Keyring(shared=SHARED, derived="require")
    received = receive(Inbox(), ReadContext("web", 1.0, keys), samples=values, reports=reports)
    assert set(received.samples) == {"a", "b"}
    assert (received.reports, received.refused) == ({}, {"signature": 1})
    assert reason(keys, AGENTS, "tables") == "signature"


def test_a_refusal_tells_who_still_signs_with_the_shared_key() -> None:
    text = Keyring(shared=SHARED, derived="require").open_value(signature.sign(SHARED, b"{}"), "agent web/a")
    assert isinstance(text, Refused)
    assert text.detail == (
        "it is signed with the shared key, not with its own: `steelyard keys agent web/a` prints it"
    )
