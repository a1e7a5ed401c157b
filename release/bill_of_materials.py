"""CycloneDX bills of materials: what each package brings, or needs of Debian.

cyclonedx-bom writes those of Python packages from the pinned requirements; what the page, a Debian or a Lua
package has or needs is a line or two. The same release gives the same bytes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_PYTHON = ("agent", "controller", "reporter")


def write(tree: Path, out: Path, version: str) -> None:
    """Write one for each package into `out`, as NAME-VERSION.cdx.json."""
    for name in _PYTHON:
        document = _of_requirements(tree, name)
        if name == "controller":
            document["components"] += _of_page(tree / "controller/dashboard/package-lock.json")
        _write(out, f"steelyard_{name}", version, document)
    for name in ("steelyard-agent", "steelyard-nginx"):
        _write(out, f"{name}-deb", version, _of_debian(tree, name, version))
    _write(out, "lua-resty-vnswrr", version, _document("lua-resty-vnswrr", version, []))


def _of_requirements(tree: Path, name: str) -> dict[str, Any]:
    command = [
        str(Path(sys.executable).with_name("cyclonedx-py")),
        "requirements",
        f"requirements/{name}.txt",
    ]
    options = [
        "--pyproject",
        f"{name}/pyproject.toml",
        "--output-reproducible",
        "--of",
        "JSON",
        "--sv",
        "1.6",
    ]
    done = subprocess.run([*command, *options], cwd=tree, check=True, capture_output=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _of_page(lock: Path) -> list[dict[str, Any]]:
    # What the page names itself: of those files are copied into it, and of nothing that they need.
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    return [
        {"type": "library", "bom-ref": purl, "name": name, "version": pinned, "purl": purl}
        for name, pinned in packages[""]["dependencies"].items()
        for purl in (f"pkg:npm/{name}@{pinned}",)
    ]


def _of_debian(tree: Path, name: str, version: str) -> dict[str, Any]:
    control = (tree / "release/debian" / name / "control/control").read_text(encoding="utf-8")
    needed = re.search(r"(?m)^Depends: (.*)$", control)
    assert needed is not None, name  # noqa: S101
    packages = [each.split(" ")[0] for each in needed[1].split(", ")]
    components = [
        {"type": "library", "bom-ref": purl, "name": purl.rpartition("/")[2], "purl": purl}
        for purl in (f"pkg:deb/debian/{each}" for each in packages)
    ]
    return _document(name, version, components)


def _document(name: str, version: str, components: list[dict[str, Any]]) -> dict[str, Any]:
    about = {"type": "application", "bom-ref": name, "name": name, "version": version}
    licence = {"licenses": [{"license": {"id": "Apache-2.0"}}]}
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**about, **licence}},
        "components": components,
        "dependencies": [{"ref": name, "dependsOn": [each["bom-ref"] for each in components]}],
    }


def _write(out: Path, name: str, version: str, document: dict[str, Any]) -> None:
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    (out / f"{name}-{version}.cdx.json").write_text(text, encoding="utf-8")
