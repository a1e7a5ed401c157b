"""Remarks about an Envoy by its version."""

from typing import Any

import pytest
from steelyard_controller.xds import envoy_versions
from steelyard_controller.xds.xds_messages import LoadStatsRequest


def _node(major: int, minor: int, patch: int, name: str = "envoy") -> Any:
    node = LoadStatsRequest().node
    node.id, node.user_agent_name = "edge-1", name
    version = node.user_agent_build_version.version
    version.major_number, version.minor_number, version.patch = major, minor, patch
    return node


@pytest.mark.parametrize("version", [(1, 36, 4), (1, 38, 3)])
def test_an_old_envoy_has_a_remark_with_its_version_and_the_remedy(version: tuple[int, int, int]) -> None:
    remark = envoy_versions.remark(_node(*version))
    assert remark is not None
    assert remark.startswith(f"version {'.'.join(map(str, version))} ")
    assert remark.endswith(": install 1.39 or later")
    assert "leaves long requests out" in remark


@pytest.mark.parametrize(
    "node", [_node(1, 39, 0), _node(2, 0, 0), _node(0, 0, 0), _node(1, 36, 0, name="gRPC C-core")]
)
def test_a_newer_one_and_other_clients_have_none(node: Any) -> None:
    assert envoy_versions.remark(node) is None
