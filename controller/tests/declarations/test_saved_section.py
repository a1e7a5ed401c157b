"""A saved file brings back every field that it names, and leaves later drains, pins and servers alone."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from pydantic import ValidationError
from steelyard_controller import yaml_text
from steelyard_controller.declarations.declaration import UNCHANGED, differences
from steelyard_controller.declarations.saved_section import SET_LATER, applied, section_of
from steelyard_controller.declarations.upstream import Peer, Upstream

from .drawn_declarations import documents, values

# A whole declaration takes long to draw while other processes have the CPU.
SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

UPSTREAMS = documents(Upstream).map(Upstream.model_validate)


def through_a_file(upstream: Upstream, *, as_json: bool = False) -> Upstream:
    """Return the section of an upstream as `apply` reads it from the file that `save` wrote."""
    document = {"upstreams": {"web": section_of(upstream)}}
    read: Any = yaml_text.parse(json.dumps(document) if as_json else yaml_text.dump(document)).value
    return Upstream.model_validate(read["upstreams"]["web"], strict=True)


def brought_back(saved: Upstream, now: Upstream, *, prune: bool = False) -> dict[str, Any]:
    """Return the declaration that must stand after `apply`; it may be one that is refused."""
    later = {peer.id: peer for peer in now.peers}
    peers = []
    for peer in saved.peers:
        kept = {
            name: getattr(later[peer.id], name)
            for name in SET_LATER
            if peer.id in later and getattr(peer, name) == Peer.model_fields[name].default
        }
        peers.append(peer.model_copy(update=kept))
        later.pop(peer.id, None)
    fields = {name: getattr(saved, name) for name in Upstream.model_fields}
    return {**fields, "peers": peers + ([] if prune else list(later.values()))}


@settings(max_examples=60, suppress_health_check=SLOW)
@given(saved=UPSTREAMS, now=UPSTREAMS, prune=st.booleans(), as_json=st.booleans())
def test_after_any_changes_the_file_holds_and_the_rest_stays(
    saved: Upstream, now: Upstream, prune: bool, as_json: bool
) -> None:
    section = through_a_file(saved, as_json=as_json)
    wanted = brought_back(saved, now, prune=prune)
    try:
        after = applied(now, section, prune=prune)
    except ValidationError:
        with pytest.raises(ValidationError):  # such as a new server without max_conns
            Upstream(**wanted)
        return
    assert after == Upstream(**wanted)
    assert applied(after, section, prune=prune) == after
    assert (differences(now, after) == UNCHANGED) == (sorted_peers(now) == sorted_peers(after))


@settings(max_examples=20, suppress_health_check=SLOW)
@given(UPSTREAMS)
def test_a_saved_file_declares_the_same_where_nothing_is_declared(saved: Upstream) -> None:
    section = through_a_file(saved)
    assert applied(None, section, prune=False) == saved


def sorted_peers(upstream: Upstream) -> tuple[Upstream, list[Peer]]:
    return upstream.model_copy(update={"peers": []}), sorted(upstream.peers, key=lambda peer: peer.id)


@pytest.mark.parametrize("field", sorted(set(Upstream.model_fields) - {"peers"}))
def test_every_field_is_brought_back_also_to_its_default(field: str) -> None:
    default, other = Upstream(), Upstream.model_validate({field: another(Upstream, field, {})})
    for saved, now in ((default, other), (other, default)):
        assert applied(now, through_a_file(saved), prune=False) == saved


@pytest.mark.parametrize("field", sorted(set(Peer.model_fields) - {"id"} - SET_LATER))
def test_every_field_of_a_server_is_brought_back_also_to_its_default(field: str) -> None:
    server = {"id": "a", "address": "10.0.0.9:80"}
    default = Upstream.model_validate({"peers": [server]})
    other = Upstream.model_validate({"peers": [server | {field: another(Peer, field, server)}]})
    for saved, now in ((default, other), (other, default)):
        assert applied(now, through_a_file(saved), prune=False) == saved


def another(model: type[Upstream | Peer], field: str, document: dict[str, Any]) -> object:
    """Return a value of a field other than its default, or than the document's."""
    usual = getattr(model.model_validate(document), field)

    def is_another(value: object) -> bool:
        try:
            return bool(getattr(model.model_validate(document | {field: value}), field) != usual)
        except ValidationError:
            return False

    try:
        enough = settings(phases=[Phase.generate], max_examples=200)
        return find(values(model, field), is_another, settings=enough)
    except NoSuchExample:
        pytest.fail(f"no value of {field} is drawn: describe it in OF_FIELDS of drawn_declarations.py")
