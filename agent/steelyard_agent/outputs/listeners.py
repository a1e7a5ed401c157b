"""Opens the ports where the agent is asked, or keeps `before`, which listens at the same address already."""

from typing import TYPE_CHECKING

from steelyard_protocol import setting_values
from steelyard_protocol.program_settings import SettingsError
from steelyard_protocol.setting_values import Address

from steelyard_agent.outputs.http_server import HttpServer, Respond

if TYPE_CHECKING:
    from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer


def http_server(
    flag: str, address: Address | None, respond: Respond, before: HttpServer | None
) -> HttpServer | None:
    """Return what answers at the address that a flag gave, if it did; raise `SettingsError`."""
    if address is None:
        return None
    if before is not None and (before.address, before.respond) == (address, respond):
        return before
    try:
        return HttpServer(address, respond)
    except (OSError, UnicodeError) as error:
        # Python's own words end with "(while attempting to bind ...)".
        why = str(error.strerror if isinstance(error, OSError) else error).partition(" (")[0]
        raise SettingsError(
            f"--{flag}: {setting_values.shown(address)} cannot be listened on: {why}"
        ) from None


def orca_grpc_server(
    address: Address | None, interval_s: float, before: "OrcaGrpcServer | None"
) -> "OrcaGrpcServer | None":
    """Return what streams to gRPC clients at the address of --orca-grpc, if any; raise `SettingsError`."""
    if address is None:
        return None
    if before is not None and before.address == address:
        return before
    try:
        # grpcio takes more memory than all else here: only who wants it pays.
        from steelyard_agent.outputs.orca_grpc_server import OrcaGrpcServer
    except ImportError as error:
        raise SettingsError(
            f"--orca-grpc needs grpcio and protobuf (pip install 'steelyard-agent[grpc]'): {error}"
        ) from None
    try:
        return OrcaGrpcServer(address, interval_s)
    except OSError as error:
        raise SettingsError(
            f"--orca-grpc: {setting_values.shown(address)} cannot be listened on: {error}"
        ) from None
