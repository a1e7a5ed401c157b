"""The steps of churn: the controller accepts each request, and a round restores the state before it."""

from ipaddress import ip_address
from itertools import islice

import pytest
from steelyard_controller.declarations.upstream import Peer, Upstream
from steelyard_resilience.soak.timetable import CHURNED, Step, churned_address, steps

SERVERS = [Peer(id=f"server-{number}", address=f"10.0.0.{number}:80", baseline=1.0) for number in range(1, 6)]
PICKERS = ["vnswrr", "hcl"]
ROUND = 21


class Declared:
    """The controller's declarations, with the changes of its API."""

    def __init__(self) -> None:
        peers = [{"id": one.id, "address": one.address, "baseline": one.baseline} for one in SERVERS]
        self.upstreams = {"web": Upstream.model_validate({"peers": peers}).model_dump()}

    def take(self, step: Step) -> None:
        parts = step.path.removeprefix("/v1/upstreams/").split("/")
        if step.method == "GET":
            return
        name, peer = parts[0], parts[2] if len(parts) > 2 else None
        if peer is None:
            self._whole(name, step)
            return
        kept = {one["id"]: one for one in self.upstreams[name]["peers"]}
        if step.method == "DELETE":
            del kept[peer]
        elif step.method == "PATCH":
            changed = kept[peer] | dict(step.document or {})
            kept[peer] = changed | ({"state": "up"} if changed["state"] is None else {})
        else:
            kept[peer] = {"id": peer} | dict(step.document or {})
        self._check(name, self.upstreams[name] | {"peers": list(kept.values())})

    def _whole(self, name: str, step: Step) -> None:
        if step.method == "DELETE":
            del self.upstreams[name]
        elif step.members is not None:
            self._check(name, self.upstreams[name] | dict(step.members))
        else:
            self._check(name, dict(step.document or {}))

    def _check(self, name: str, document: dict[str, object]) -> None:
        self.upstreams[name] = Upstream.model_validate(document).model_dump()

    def as_it_stands(self) -> dict[str, object]:
        web = self.upstreams["web"]
        return web | {"peers": sorted(web["peers"], key=lambda peer: str(peer["id"]))}

    def up(self) -> int:
        return sum(peer["state"] == "up" for peer in self.upstreams["web"]["peers"])


def test_every_step_is_one_that_a_declaration_allows_and_three_servers_always_serve() -> None:
    declared = Declared()
    for step in islice(steps("web", SERVERS, PICKERS), 12 * ROUND):
        declared.take(step)
        assert declared.up() >= 3, step.words


def test_a_round_restores_the_state_before_it() -> None:
    before, after = Declared(), Declared()
    for step in islice(steps("web", SERVERS, PICKERS), ROUND):
        after.take(step)
    assert set(after.upstreams) == {"web"}
    assert after.as_it_stands() == before.as_it_stands()


def test_each_round_adds_a_new_server() -> None:
    all_steps = islice(steps("web", SERVERS, PICKERS), 300 * ROUND)
    comes = [step for step in all_steps if step.words == "add a server"]
    assert len({step.path for step in comes}) == 300
    assert len({(step.document or {})["address"] for step in comes}) == 300


@pytest.mark.parametrize(
    ("number", "address"), [(0, "10.214.0.1:8100"), (255, "10.214.1.0:8100"), (65_534, "10.214.0.1:8100")]
)
def test_churned_servers_addresses_are_of_one_network(number: int, address: str) -> None:
    assert churned_address(number, 8100) == address
    assert ip_address(address.removesuffix(":8100")) in CHURNED
