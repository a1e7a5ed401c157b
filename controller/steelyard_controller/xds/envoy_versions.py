"""The shortcomings of an old Envoy, by the version in its messages. Pure.

Seen on the Envoys 1.36 to 1.40 (docs/research/versions.md). An Envoy names its version in `node`, as other
clients of xDS do; those have another `user_agent_name`.
"""

from typing import Any

# An Envoy below this version has this shortcoming.
_BELOW = (((1, 39), "leaves long requests out of its reports when they end, so the laws miss them"),)


def remark(node: Any) -> str | None:  # noqa: ANN401 (protobuf has no types here)
    """Return the shortcomings of an Envoy of this node's version, with the remedy; None: it has none."""
    version = node.user_agent_build_version.version
    if node.user_agent_name != "envoy" or not version.major_number:
        return None
    own = version.major_number, version.minor_number
    found = [words for below, words in _BELOW if own < below]
    if not found:
        return None
    newest = ".".join(map(str, _BELOW[-1][0]))
    name = f"{own[0]}.{own[1]}.{version.patch}"
    return f"version {name} {', and '.join(found)}: install {newest} or later"
