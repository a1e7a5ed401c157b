"""The names of pods' control groups under a kubelet (kubernetes, `pkg/kubelet/cm`). Pure.

    cgroupfs    /kubepods/[burstable/|besteffort/]pod<uid>
    systemd     /kubepods.slice/[kubepods-burstable.slice/]kubepods[-burstable]-pod<uid>.slice

In a slice's name "-" separates it from its parents, so a uid's dashes become "_". All of it may lie in
another group, set by the kubelet's `--cgroup-root`: kind's in /kubelet (`kubelet-kubepods.slice`
in `kubelet.slice`), and for a kubelet in a container, that container's.
"""

from collections.abc import Iterable

SLICE = ".slice"

QUALITIES = ("burstable", "besteffort")


def is_kubepods(folder: str) -> bool:
    """Return whether a group of this name holds all pods of a kubelet."""
    inner = folder.removesuffix(SLICE)
    return inner == "kubepods" or (folder != inner and inner.endswith("-kubepods"))


def is_quality(folder: str) -> bool:
    """Return whether a group of this name holds the pods of one quality of service."""
    return folder in QUALITIES or any(folder.endswith(f"kubepods-{quality}{SLICE}") for quality in QUALITIES)


def pod_uid(folder: str) -> str | None:
    """Return the uid of the pod whose group has this name; None if it is not a pod's."""
    inner = folder.removesuffix(SLICE)
    if inner == folder:
        return folder.removeprefix("pod") if folder.startswith("pod") else None
    last = inner.rpartition("-")[2]
    return (
        last.removeprefix("pod").replace("_", "-") if "kubepods" in inner and last.startswith("pod") else None
    )


def pods_in(parent: str, folders: Iterable[str]) -> dict[str, str]:
    """Return the paths of the pods' groups among a group's folders, by uid."""
    return {uid: f"{parent}/{folder}" for folder in folders if (uid := pod_uid(folder))}
