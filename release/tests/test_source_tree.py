"""The version of a release, in every file that names one."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from release import source_tree
from release.__main__ import build
from release.source_tree import ReleaseError

CHECKOUT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.3.4", "v1.2.3", "1.2.03", "1.2.3rc1", "1.2.3\n", "../1.2"]
)
def test_what_is_no_version_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ReleaseError, match=r"make release VERSION=0\.1\.0"):
        source_tree.checked_version(text)


def test_the_version_is_in_every_file_that_names_one(tmp_path: Path) -> None:
    assert source_tree.export(CHECKOUT, tmp_path) > 1_700_000_000
    source_tree.stamp(tmp_path, "17.4.2")
    for name in source_tree.DISTRIBUTIONS:
        document = tomllib.loads((tmp_path / name / "pyproject.toml").read_text())
        assert document["project"]["version"] == "17.4.2"
        assert "uv" not in document.get("tool", {})
        ours = [each for each in document["project"]["dependencies"] if each.startswith("steelyard")]
        assert all(each.endswith("==17.4.2") for each in ours)
        assert (tmp_path / name / "LICENSE").exists()
    assert (tmp_path / source_tree.ROCKSPEC.format("17.4.2")).exists()
    product = [tmp_path / "protocol", tmp_path / "agent/pyproject.toml", tmp_path / "openresty/steelyard/lib"]
    left = subprocess.run(["grep", "-rl", '"0\\.1\\.0"', *product], capture_output=True, text=True)
    assert left.stdout == ""


def test_a_tree_whose_files_name_another_version_is_not_released_half_stamped(tmp_path: Path) -> None:
    source_tree.export(CHECKOUT, tmp_path)
    worker = tmp_path / "openresty/steelyard/lib/steelyard/phase/worker.lua"
    worker.write_text(worker.read_text().replace('"0.1.0"', '"0.0.9"'))
    with pytest.raises(ReleaseError, match=r"worker\.lua"):
        source_tree.stamp(tmp_path, "17.4.2")


def test_a_folder_that_is_no_release_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(ReleaseError, match="is not a release"):
        build("1.2.0", tmp_path)
    assert (tmp_path / "mine").read_text() == "kept"
