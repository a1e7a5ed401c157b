"""The stages of one upstream's tick before the laws, in their order: begun, taken up, observed. Pure."""

from msgspec import Struct

from steelyard_controller.declarations.upstream import Upstream
from steelyard_controller.laws.blend import Due
from steelyard_controller.laws.zones import Zoning
from steelyard_controller.messages.inbox import Inbox, Receipt, RefusalChange
from steelyard_controller.messages.undeclared_balancers import UndeclaredBalancers
from steelyard_controller.tick.declared_columns import DeclaredColumns
from steelyard_controller.tick.snapshot_builder import SnapshotInput
from steelyard_controller.tick.window_pairing import WindowPairing


class Begun(Struct, frozen=True):
    """A tick that has begun: the upstream as it is declared now, and its values.

    inbox       the messages before this tick
    pairing     the pairing before this tick
    receipt     the values; None: Memcached did not answer
    announced   the values of load balancers whose first report is judged; None: there are none
    """

    upstream: Upstream
    declared: DeclaredColumns
    inbox: Inbox
    pairing: WindowPairing
    receipt: Receipt | None
    announced: Receipt | None


class TakenUp(Struct, frozen=True):
    """The messages of a tick, and the state that follows from them; `refusals` began or ended."""

    inbox: Inbox
    undeclared: UndeclaredBalancers
    balancer_changes: list[str]
    zones: Zoning | None
    refusals: list[RefusalChange]
    snapshot: SnapshotInput


class Observed(Struct, frozen=True):
    """The input of the laws at a tick, and the requests that ended per second (NaN: not reported)."""

    upstream: Upstream
    due: Due
    refusals: list[RefusalChange]
    ended_per_s: float
