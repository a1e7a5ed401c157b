"""The declaration that an upstream's ticks follow, and what a tick needs of it. Pure.

Most of it is made once for a declaration. Only servers with a host name may have other addresses at a tick.
"""

from collections.abc import Mapping

from steelyard_protocol import wire

from steelyard_controller.declarations import addresses_in_effect
from steelyard_controller.declarations.declaration import Declaration
from steelyard_controller.declarations.upstream import LOAD_BALANCERS, Upstream
from steelyard_controller.tick.declared_columns import DeclaredColumns


class FollowedDeclaration:
    """A declaration in effect.

    laws             the laws that step, by name
    zones            the names of the declared zones
    load_balancers   those declared, or those of the controller if the upstream declares none; each once
    typed            the spellings of IP addresses as they were typed, by server
    sample_keys      the Memcached key of each server's sample
    report_keys      the Memcached key of the report of each of the `load_balancers`
    address_fault    the fault that servers share an address, as of the last tick
    """

    def __init__(self, name: str, declaration: Declaration, load_balancers: tuple[str, ...]) -> None:
        self.declaration = declaration
        self._upstream, self.typed = addresses_in_effect.canonical(declaration.in_effect)
        self.laws = self._upstream.made_laws()
        self.zones = self._upstream.zones
        self.load_balancers = load_balancers_of(self._upstream, load_balancers)
        self.sample_keys = sample_keys(name, self._upstream)
        self.report_keys = {lb: wire.traffic_key(name, lb) for lb in self.load_balancers}
        self.message_keys = [*self.sample_keys.values(), *self.report_keys.values()]
        self.address_fault: str | None = None
        self._named_peers = addresses_in_effect.named_peers(self._upstream)
        self._columns: tuple[Upstream, DeclaredColumns] | None = None
        self._keys: tuple[DeclaredColumns | None, list[str]] = None, []
        if not self._named_peers:
            self._upstream, self.address_fault = addresses_in_effect.follow(self._upstream, typed=self.typed)

    def upstream(self, addresses: Mapping[str, str]) -> Upstream:
        """Return the upstream for a tick, whose servers with a host name have these IP:port `addresses`.

        A server without an address is left out.
        """
        if not self._named_peers:
            return self._upstream
        upstream, self.address_fault = addresses_in_effect.follow(
            self._upstream, self._named_peers, addresses, self.typed
        )
        return upstream

    def columns_of(self, upstream: Upstream) -> DeclaredColumns:
        """Return the columns of an upstream that `upstream` has returned; they are kept for the next tick."""
        if self._columns is None or self._columns[0] is not upstream:
            columns = DeclaredColumns.of(upstream.peers, upstream.knees, upstream.max_conns)
            self._columns = upstream, columns
        return self._columns[1]

    def keys_of(self, declared: DeclaredColumns) -> list[str]:
        """Return the keys of the samples of these columns' servers, which `columns_of` has returned."""
        if self._keys[0] is not declared:
            self._keys = declared, [self.sample_keys[peer] for peer in declared.ids]
        return self._keys[1]


def load_balancers_of(upstream: Upstream, of_controller: tuple[str, ...]) -> tuple[str, ...]:
    """Return the load balancers that an upstream declares, or those of the controller if it declares none."""
    declared = tuple(upstream.load_balancers)
    return tuple(dict.fromkeys(of_controller if declared == LOAD_BALANCERS else declared))


def sample_keys(name: str, upstream: Upstream) -> dict[str, str]:
    """Return the Memcached key of each server's sample in the upstream of this name."""
    return {peer.id: wire.sample_key(name, peer.id) for peer in upstream.peers}
