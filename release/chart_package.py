"""The Helm chart as one file: `helm install steelyard ./steelyard-1.2.0.tgz`."""

import os
import subprocess
from pathlib import Path

from release.source_tree import ReleaseError

CHART = "deploy/helm/steelyard"


def build(helm: Path, tree: Path, out: Path, version: str, made_at_s: int) -> Path:
    """Pack the chart of a tree under this version, which the images have too; return the file.

    helm writes what links lead to, and gives every file the time that SOURCE_DATE_EPOCH says.
    """
    if not helm.exists():
        raise ReleaseError(f"{helm} is not here: run scripts/kubernetes-clients")
    versions = ["--version", version, "--app-version", version]
    subprocess.run(
        [helm, "package", str(tree / CHART), *versions, "--destination", str(out)],
        check=True,
        capture_output=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(made_at_s)},
    )
    return out / f"steelyard-{version}.tgz"
