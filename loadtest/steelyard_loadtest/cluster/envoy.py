"""Envoy's file: its servers come by a controller's xDS, in a file beside it, or stand in it (a template)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from steelyard_loadtest.cluster.nginx import TEMPLATES
from steelyard_loadtest.cluster.parts import HOST, UPSTREAM
from steelyard_loadtest.templates import render_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Envoy:
    """What an Envoy is told.

    lb: its name. method: its `lb_policy`; with `orca` what goes by load reports stands in its place.
    controllers: where it asks for its servers, and reports to (xDS). Without any they are in `endpoints`,
    which it watches, or else in `servers`, an LbEndpoint each.
    """

    lb: str
    port: int
    method: str
    listen: str = HOST
    orca: bool = False
    controllers: Sequence[tuple[str, int]] = ()
    endpoints: Path | None = None
    servers: Sequence[object] = ()


def config(envoy: Envoy) -> str:
    """Return envoy.yaml."""
    return render_file(TEMPLATES / "envoy.yaml", {"envoy": envoy, "upstream": UPSTREAM})
