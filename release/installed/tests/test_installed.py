"""The output of `make release`, installed without a checkout: it samples, ticks and balances."""

import hashlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.bill_of_materials import IMAGES
from release.installed.tests.clean_root import CleanRoot
from testing.daemons import Daemon, free_port
from testing.waiting import PATIENCE_S

pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="session")
def made() -> Path:
    """The folder of the release."""
    folder = os.environ.get("STEELYARD_RELEASE")
    if folder is None:
        pytest.fail("STEELYARD_RELEASE names no release: run `make release VERSION=0.1.0`")
    return Path(folder)


@pytest.fixture(scope="session")
def version(made: Path) -> str:
    """The release's version."""
    file = re.search(r"steelyard_protocol-(\S+)\.tar\.gz", " ".join(each.name for each in made.iterdir()))
    assert file is not None
    return file[1]


@pytest.fixture(scope="session")
def environment(made: Path, version: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean venv with everything in Python, by name."""
    folder = tmp_path_factory.mktemp("venv")
    _pip(folder, made, *(f"steelyard-{name}=={version}" for name in ("agent", "controller", "reporter")))
    return folder / "bin"


@pytest.fixture(scope="session")
def root(made: Path, version: str, tmp_path_factory: pytest.TempPathFactory) -> CleanRoot:
    """A clean Debian with both packages."""
    clean = CleanRoot(tmp_path_factory.mktemp("root"))
    said = clean.install([made / f"steelyard-{name}_{version}_all.deb" for name in ("agent", "nginx")])
    assert "steelyard-agent: write upstream, peer and memcached into /etc/steelyard/agent.toml" in said
    assert "steelyard-nginx: set memcached and the upstreams in /etc/nginx/snippets/steelyard.conf" in said
    return clean


def _pip(folder: Path, made: Path, *what: str) -> None:
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    pip = str(folder / "bin/pip")
    command = [pip, "install", "--quiet", "--disable-pip-version-check", "--find-links", str(made)]
    subprocess.run([*command, *what], check=True, cwd=folder)


def _ask(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310
        return str(answer.read().decode())


def test_the_sums_are_those_of_the_files(made: Path) -> None:
    lines = (made / "SHA256SUMS").read_text().splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
    files = {each.name: hashlib.sha256(each.read_bytes()).hexdigest() for each in made.iterdir()}
    del files["SHA256SUMS"]
    assert sums == files


def test_source_distributions_install_as_the_wheels_do(made: Path, version: str, tmp_path: Path) -> None:
    files = [made / f"steelyard_{name}-{version}.tar.gz" for name in ("protocol", "agent")]
    _pip(tmp_path / "venv", made, *map(str, files))
    sample = subprocess.run(
        [tmp_path / "venv/bin/steelyard-agent", "--once", "--scope=host", "--upstream=web", "--peer=a"],
        check=True, capture_output=True, cwd=tmp_path,
    ).stdout  # fmt: skip
    assert json.loads(sample)["utilization"]["cpu"] is not None


BILLS = [
    *("steelyard_agent", "steelyard_controller", "steelyard_reporter"),
    *("steelyard-agent-deb", "steelyard-nginx-deb", "lua-resty-vnswrr"),
    *(f"steelyard-{name}-image" for name in IMAGES),
]


@pytest.mark.parametrize("bill", BILLS)
def test_a_bill_of_materials_is_cyclonedx(made: Path, version: str, bill: str) -> None:
    text = (made / f"{bill}-{version}.cdx.json").read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_the_bills_name_all_that_was_installed(made: Path, version: str, environment: Path) -> None:
    listing = [str(environment / "pip"), "list", "--format", "json"]
    listed = json.loads(subprocess.run(listing, check=True, capture_output=True).stdout)
    installed = {re.sub(r"[-_.]+", "-", each["name"]).lower() for each in listed}
    named = {
        "pip",
        "setuptools",
        "steelyard-agent",
        "steelyard-controller",
        "steelyard-protocol",
        "steelyard-reporter",
    }
    for bill in ("agent", "controller", "reporter"):
        components = json.loads((made / f"steelyard_{bill}-{version}.cdx.json").read_text())["components"]
        named |= {str(each["name"]).lower() for each in components}
    assert installed <= named
    assert {"uplot", "swagger-ui-dist"} <= named


def test_the_library_installs_with_luarocks(made: Path, version: str, root: CleanRoot) -> None:
    root.install(["luarocks", "luajit2"])
    name = f"lua-resty-vnswrr-{version}"
    (root.folder / "root" / f"{name}.tar.gz").write_bytes((made / f"{name}.tar.gz").read_bytes())
    root.run("tar", "-C", "/root", "-xzf", f"/root/{name}.tar.gz")
    make = f"luarocks --lua-version 5.1 --tree /opt/rocks make {name}-1.rockspec"
    root.run("sh", "-c", f"cd /root/{name} && {make}")
    program = 'print(require("resty.vnswrr")._VERSION)'
    said = root.run("env", "LUA_PATH=/opt/rocks/share/lua/5.1/?.lua", "luajit", "-e", program)
    assert said.strip() == version


@pytest.fixture
def cluster(
    root: CleanRoot, environment: Path, memcached: Daemon, tmp_path: Path
) -> Iterator[dict[str, int]]:
    """The ports of two servers, the packaged nginx and the packaged controller; beside them an agent runs."""
    ports = {name: free_port() for name in ("nginx", "api", "a", "b")}
    (root.folder / "etc/steelyard/agent.toml").write_text(
        f'upstream = "web"\npeer = "a"\nscope = "host"\nmemcached = ["{memcached.address}"]\n'
    )
    snippet = root.folder / "etc/nginx/snippets/steelyard.conf"
    snippet.write_text(re.sub(r'"127\.0\.0\.1:\d+"', f'"{memcached.address}"', snippet.read_text()))
    (root.folder / "etc/hostname").write_text("edge-1\n")
    servers = "".join(
        f'server {{ listen 127.0.0.1:{ports[each]}; location / {{ return 200 "{each}"; }} }}\n'
        for each in "ab"
    )
    (root.folder / "etc/nginx/sites-enabled/default").unlink(missing_ok=True)
    (root.folder / "etc/nginx/conf.d/site.conf").write_text(
        f"""include snippets/steelyard.conf;
        server {{
          listen 127.0.0.1:{ports["nginx"]};
          location / {{ proxy_pass http://web; proxy_http_version 1.1; proxy_set_header Connection ""; }}
          location = /steelyard/status {{ content_by_lua_block {{ require("steelyard").status() }} }}
        }}
        {servers}"""
    )
    declared = [{"id": each, "address": f"127.0.0.1:{ports[each]}"} for each in ("a", "b")]
    file = tmp_path / "controller.yaml"
    file.write_text(json.dumps({"upstreams": {"web": {"load_balancers": ["edge-1"], "peers": declared}}}))
    controller = [
        *(str(environment / "steelyard-controller"), "--config", str(file), "--state-url", "memory://"),
        *("--memcached", memcached.address, "--api-port", str(ports["api"])),
    ]
    assert "syntax is ok" in root.run("nginx", "-t")
    commands = [
        controller,
        root.command("nginx", "-g", "daemon off;"),
        root.command("env", "STEELYARD_AGENT_CONFIG=/etc/steelyard/agent.toml", "steelyard-agent"),
    ]
    with (tmp_path / "log").open("wb") as log:
        # In a folder without our sources, so that they import the installed code.
        running = [subprocess.Popen(each, cwd=tmp_path, stdout=log, stderr=log) for each in commands]
    yield ports
    for process in reversed(running):
        process.terminate()
        process.wait(PATIENCE_S)


def test_it_samples_ticks_and_balances(cluster: dict[str, int], environment: Path, tmp_path: Path) -> None:
    status, api = (f"http://127.0.0.1:{cluster[each]}" for each in ("nginx", "api"))
    deadline = time.monotonic() + PATIENCE_S

    def holds() -> bool:
        try:
            served = json.loads(_ask(f"{status}/steelyard/status"))["upstreams"]["web"]["rung"] == "fresh"
            shown = json.loads(_ask(f"{api}/v1/upstreams/web"))["peers"]
        except OSError:
            return False
        return served and any((each.get("utilization") or {}).get("cpu") is not None for each in shown)

    while not holds():
        assert time.monotonic() < deadline, (tmp_path / "log").read_text()
        time.sleep(0.1)
    assert {_ask(status) for _ in range(20)} == {"a", "b"}
    assert "<html" in _ask(api), "the page is in the wheel"
    said = [str(environment / "steelyard"), "--url", api, "status"]
    told = subprocess.run(said, check=True, capture_output=True)
    assert b"leads" in told.stdout


def test_the_process_scope_is_refused_with_debians_psutil(root: CleanRoot) -> None:
    told = root.run(
        "sh", "-c", "steelyard-agent --explain --upstream web --peer a --scope process --pid 1 2>&1; echo $?"
    )
    assert "--scope process needs psutil 7 or later" in told
    assert told.endswith("\n2\n")


def test_an_upgrade_keeps_what_was_set_and_removal_leaves_nothing(version: str, root: CleanRoot) -> None:
    settings = root.folder / "etc/steelyard/agent.toml"
    settings.write_text('upstream = "web"\n')
    for name in ("steelyard-agent", "steelyard-nginx"):
        unpacked = f"/root/{name}"
        root.run("dpkg-deb", "-R", f"/root/{name}_{version}_all.deb", unpacked)
        root.run("sed", "-i", f"s/^Version: .*/Version: {version}.1/", f"{unpacked}/DEBIAN/control")
        root.run("dpkg-deb", "--root-owner-group", "--build", unpacked, f"/root/{name}-newer.deb")
        root.run("dpkg", "--force-confold", "--install", f"/root/{name}-newer.deb")
        assert f"{version}.1" in root.run("dpkg-query", "-W", name)
    assert settings.read_text() == 'upstream = "web"\n'
    root.run("apt-get", "remove", "--yes", "steelyard-agent", "steelyard-nginx")
    assert settings.exists()
    root.run("apt-get", "purge", "--yes", "steelyard-agent", "steelyard-nginx")
    ours = ("-path", "*steelyard*", "-not", "-path", "/var/lib/dpkg/*")
    left = root.run("find", "/etc", "/usr", "/var/lib", *ours)
    assert left == ""
