"""The rule of `.importlinter` for modules whose docstring says "Pure"."""

from pathlib import Path

import grimp
import pytest

from testing.pure_contract import PureContract

FILES = {
    "__init__": "",
    "client": '"""Talks to somebody. I/O only."""\nimport socket\n',
    "innocent": '"""Adds. Pure."""\nfrom random import Random\nfrom urllib.parse import urlsplit\n',
    "guilty": '"""Adds. Pure."""\nimport time\n',
    "accomplice": '"""Adds. Pure."""\nfrom purity_example import client\n',
    "honest": '"""Adds. Pure but for the clock."""\nimport time\n',
}


def test_a_module_that_says_it_is_pure_may_import_neither_io_nor_what_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "purity_example"
    package.mkdir()
    for name, text in FILES.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    graph = grimp.build_graph("purity_example", include_external_packages=True, cache_dir=None)
    contract = PureContract(
        name="pure",
        session_options={"root_packages": ["purity_example"]},
        contract_options={},
    )
    check = contract.check(graph, verbose=False)
    assert not check.kept
    assert check.metadata["broken"] == [
        ("purity_example.accomplice", "purity_example.client"),
        ("purity_example.guilty", "time"),
    ]
