"""The Helm chart as one file: `helm install steelyard ./steelyard-0.1.0.tgz`."""

import os
import subprocess
from pathlib import Path

from release.source_tree import ReleaseError

CHART = "deploy/helm/steelyard"


def build(helm: Path, tree: Path, out: Path, version: str, made_at_s: int) -> Path:
    """Pack the chart of a tree under the version of the images; return the file.

    helm follows links, and gives every file the time in SOURCE_DATE_EPOCH.
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
