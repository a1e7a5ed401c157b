"""`python -m release VERSION`: builds a release into dist/VERSION."""

import argparse
import hashlib
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import (
    bill_of_materials,
    chart_package,
    debian_packages,
    lua_packages,
    python_packages,
    source_tree,
)
from release.source_tree import ReleaseError

CHECKOUT = Path(__file__).parents[1]


def main() -> int:
    """Build a release; return the exit status."""
    parser = argparse.ArgumentParser(
        prog="make release", description="Build all packages of git's tree at HEAD."
    )
    parser.add_argument("version", help="three numbers, as in 0.1.0")
    parser.add_argument("--out", type=Path, help="output folder (default dist/VERSION)")
    arguments = parser.parse_args()
    try:
        version = source_tree.checked_version(arguments.version)
        out = arguments.out or CHECKOUT / "dist" / version
        build(version, out.absolute())
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as error:
        print(f"release: {error}\n{(error.stderr or b'').decode()[-2000:]}", file=sys.stderr)
        return 1
    return 0


def build(version: str, out: Path) -> None:
    """Build everything in a temporary folder, then replace an earlier release in `out`."""
    if out.exists() and not (out / "SHA256SUMS").is_file():
        raise ReleaseError(f"{out} is not a release, so it is not replaced: choose another folder with --out")
    left_out = source_tree.uncommitted(CHECKOUT)
    if left_out:
        _say(f"{len(left_out)} uncommitted changes are not in the release: {left_out[0]} ...")
    with tempfile.TemporaryDirectory(prefix="steelyard-release-") as folder:
        tree, work, made = (Path(folder, name) for name in ("tree", "work", "made"))
        for each in (tree, work, made):
            each.mkdir()
        made_at_s = source_tree.export(CHECKOUT, tree)
        source_tree.stamp(tree, version)
        _say("wheels and source distributions")
        python_packages.build(CHECKOUT, tree, made, made_at_s)
        _say("Lua")
        lua_packages.build(tree, work, made, version, made_at_s)
        _say("Debian packages")
        debian_packages.build(tree, made, work, made, version, made_at_s)
        _say("Helm chart")
        chart_package.build(CHECKOUT / ".run/kubernetes-clients/helm", tree, made, version, made_at_s)
        _say("bills of materials")
        bill_of_materials.write(tree, made, version)
        files = sorted(made.iterdir())
        sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
        (made / "SHA256SUMS").write_text("".join(sums), encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(made, out)
    _say(f"{len(sums)} files in {out}, and SHA256SUMS")


def _say(text: str) -> None:
    print(f"release: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
