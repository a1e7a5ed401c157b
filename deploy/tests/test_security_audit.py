"""`make audit` claims nothing without an answer, and every package is pinned by its hash."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# Answers for pip-audit and npm. A real database knows the holes in the script's first question.
KNOWS_HOLES = 'case "$*" in *hole*) echo "Found 1 known vulnerability"; echo PYSEC-2021-142; exit 1;; esac\n'
PIP = {
    "knows of nothing else": KNOWS_HOLES + "echo 'No known vulnerabilities found'\n",
    "knows of one": KNOWS_HOLES + "echo 'Found 1 known vulnerability'; echo 'x 1 CVE-2026-1'; exit 1\n",
    "cannot be asked": "echo 'could not connect' >&2; exit 1\n",
    "knows nothing at all": "echo 'No known vulnerabilities found'\n",
    "skips a package": KNOWS_HOLES + "echo 'ERROR: x could not be audited' >&2; exit 1\n",
}
COUNT = 'echo \'{"metadata": {"vulnerabilities": {"total": %s}}}\'\n'
NPM = {
    "knows of nothing else": "case $PWD in *hole) n=1;; *) n=0;; esac\n" + COUNT % "'$n'",
    "knows of one": COUNT % "1",
    "cannot be asked": "echo '{\"error\": {}}'; exit 1\n",
    "knows nothing at all": COUNT % "0",
}


def audit(folder: Path, pip: str, npm: str) -> subprocess.CompletedProcess[str]:
    """Run scripts/audit on a project of its own, with databases that answer like this."""
    for part in ("scripts", "requirements", "controller/dashboard", ".venv/bin", "bin"):
        (folder / part).mkdir(parents=True)
    shutil.copy(ROOT / "scripts/audit", folder / "scripts/audit")
    (folder / "requirements/dev.txt").write_text("pip-audit==1\n")
    for path, text in ((folder / ".venv/bin/pip-audit", PIP[pip]), (folder / "bin/npm", NPM[npm])):
        path.write_text(f"#!/bin/bash\n{text}")
        path.chmod(0o755)
    environment = {"PATH": f"{folder / 'bin'}:/usr/bin:/bin"}
    return subprocess.run(
        [folder / "scripts/audit"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("pip", "npm", "status", "said"),
    [
        ("knows of nothing else", "knows of nothing else", 0, "1 packages, no known vulnerability"),
        ("knows of one", "knows of nothing else", 1, "CVE-2026-1"),
        ("knows of nothing else", "knows of one", 1, '"total": 1'),
        ("cannot be asked", "knows of nothing else", 2, "Nothing is claimed of requirements"),
        ("knows nothing at all", "knows of nothing else", 2, "Nothing is claimed of requirements"),
        ("skips a package", "knows of nothing else", 2, "could not be judged"),
        ("knows of nothing else", "cannot be asked", 2, "Nothing is claimed of the page"),
        ("knows of nothing else", "knows nothing at all", 2, "Nothing is claimed of the page"),
    ],
)
def test_an_audit_succeeds_only_where_a_database_answered(
    tmp_path: Path, pip: str, npm: str, status: int, said: str
) -> None:
    ran = audit(tmp_path, pip, npm)
    assert ran.returncode == status, ran.stdout + ran.stderr
    assert said in (ran.stdout if status < 2 else ran.stderr)


@pytest.mark.parametrize("path", sorted((ROOT / "requirements").glob("*.txt")), ids=lambda path: path.stem)
def test_every_package_is_pinned_with_its_hash(path: Path) -> None:
    wanted = re.findall(r"^([a-z0-9].*?)(?<!\\)$", path.read_text(), re.MULTILINE | re.DOTALL)
    assert wanted
    for each in wanted:
        assert re.match(r"[A-Za-z0-9._\[\]-]+==[^ ]+ ", each), each
        assert "--hash=sha256:" in each, each


def test_every_package_of_the_page_is_pinned_with_its_hash() -> None:
    lock = json.loads((ROOT / "controller/dashboard/package-lock.json").read_text())
    packages = {name: each for name, each in lock["packages"].items() if name}
    assert packages
    assert [name for name, each in packages.items() if not each["integrity"].startswith("sha512-")] == []
