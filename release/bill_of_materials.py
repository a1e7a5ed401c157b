"""CycloneDX bills of materials: the components of each package and image, and their Debian dependencies.

cyclonedx-bom writes the bills of Python packages from the pinned requirements. The page, the Debian packages
and the Lua packages need only a few lines. An image has its base, and the requirements that its Dockerfile
installs. The same release gives the same bytes.
"""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

_PYTHON = ("agent", "controller", "reporter")

# The targets of docker-bake.hcl, with the folder of each Dockerfile.
IMAGES = {
    "agent": "agent",
    "controller": "controller",
    "reporter": "reporter",
    "openresty": "openresty",
    "server": "loadtest",
}

# Requirements of a build stage that leaves nothing in the image, or of another image.
_NOT_INSIDE = {"build", "programs", "load"}


def write(tree: Path, out: Path, version: str) -> None:
    """Write a bill for each package and image into `out`, as NAME-VERSION.cdx.json."""
    for name in _PYTHON:
        document = _of_requirements(tree, name, "--pyproject", f"{name}/pyproject.toml")
        if name == "controller":
            document["components"] += _of_page(tree / "controller/dashboard/package-lock.json")
        _write(out, f"steelyard_{name}", version, document)
    for name in ("steelyard-agent", "steelyard-nginx"):
        _write(out, f"{name}-deb", version, _of_debian(tree, name, version))
    _write(out, "lua-resty-vnswrr", version, _document("lua-resty-vnswrr", version, []))
    for name in IMAGES:
        _write(out, f"steelyard-{name}-image", version, of_image(tree, name, version))


def _of_requirements(tree: Path, name: str, *more: str) -> dict[str, Any]:
    command = [
        str(Path(sys.executable).with_name("cyclonedx-py")),
        "requirements",
        f"requirements/{name}.txt",
    ]
    # The tests of an installed release validate the schema; validation here would take ten times as long.
    options = ["--output-reproducible", "--no-validate", "--of", "JSON", "--sv", "1.6"]
    done = subprocess.run([*command, *more, *options], cwd=tree, check=True, capture_output=True)
    document: dict[str, Any] = json.loads(done.stdout)
    return document


def _of_page(lock: Path) -> list[dict[str, Any]]:
    # Only the page's direct dependencies: it gets their files, and none of their own dependencies.
    packages = json.loads(lock.read_text(encoding="utf-8"))["packages"]
    return [
        _component("library", name, pinned, f"pkg:npm/{name}@{pinned}")
        for name, pinned in packages[""]["dependencies"].items()
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


def of_image(tree: Path, name: str, version: str) -> dict[str, Any]:
    """Return the bill of an image, by its target's name."""
    dockerfile = (tree / IMAGES[name] / "Dockerfile").read_text(encoding="utf-8")
    requirements = re.findall(r"requirements/([\w-]+)\.txt", dockerfile)
    image, _, tag = re.findall(r"(?m)^FROM (\S+:\S+)", dockerfile)[-1].rpartition(":")
    base = _component("container", image, tag, f"pkg:docker/{image}@{tag}")
    components = {base["purl"]: base}
    for each in sorted({*requirements} - _NOT_INSIDE):
        for component in _of_requirements(tree, each)["components"]:
            components[component["purl"]] = component | {"bom-ref": component["purl"]}
    if name == "controller":
        components |= {
            each["purl"]: each for each in _of_page(tree / "controller/dashboard/package-lock.json")
        }
    balancer = re.search(r"(?m)^ARG RESTY_BALANCER=(\S+)$", dockerfile)
    if balancer is not None:
        purl = f"pkg:luarocks/lua-resty-balancer@{balancer[1]}"
        components[purl] = _component("library", "lua-resty-balancer", balancer[1], purl)
    return _document(f"steelyard-{name}", version, list(components.values()), kind="container")


def _component(kind: str, name: str, version: str, purl: str) -> dict[str, Any]:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _document(
    name: str, version: str, components: list[dict[str, Any]], *, kind: str = "application"
) -> dict[str, Any]:
    about = {"type": kind, "bom-ref": name, "name": name, "version": version}
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
