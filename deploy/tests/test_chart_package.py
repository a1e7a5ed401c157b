"""The packed chart: the same bytes each time, and the same objects as the folder's."""

import json
import tarfile
from pathlib import Path

import yaml

from deploy.tests.rendered_chart import CHART, ROOT, SETS, Loader, helm, program, read_yaml
from release import chart_package

VERSION = "1.2.0"


def pack(folder: Path) -> Path:
    folder.mkdir()
    return chart_package.build(program("helm"), ROOT, folder, VERSION, 1_790_000_000)


def test_it_is_the_same_bytes_whenever_it_is_made(tmp_path: Path) -> None:
    assert pack(tmp_path / "a").read_bytes() == pack(tmp_path / "b").read_bytes()


def test_it_makes_what_the_folder_makes_in_its_version(tmp_path: Path) -> None:
    def objects(chart: Path) -> list[str]:
        text = helm("template", "steelyard", str(chart), "--values", str(SETS["monitoring"]))
        documents = [each for each in yaml.load_all(text, Loader) if each["kind"] != "Secret"]
        return [json.dumps(each) for each in documents]

    folder = read_yaml((CHART / "Chart.yaml").read_text(encoding="utf-8"))
    packed = objects(pack(tmp_path / "packed"))
    assert f"steelyard-controller:{VERSION}" in "".join(packed)
    assert [each.replace(VERSION, folder["version"]) for each in packed] == objects(CHART)


def test_what_is_linked_is_in_it_and_the_tests_values_are_not(tmp_path: Path) -> None:
    with tarfile.open(pack(tmp_path / "packed")) as packed:
        names = set(packed.getnames())
    ours = {path.relative_to(CHART).as_posix() for path in CHART.rglob("*") if path.is_file()}
    assert names == {f"steelyard/{name}" for name in ours if not name.startswith("ci/")}
