"""The rights of the shipped containers and systemd units, read from their files."""

import os
import re
import shutil
import stat
import subprocess
from configparser import ConfigParser
from pathlib import Path
from typing import Any

import pytest

from deploy.tests.rendered_chart import read_yaml

ROOT = Path(__file__).parents[2]
COMPOSE = read_yaml((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
UNITS = (
    ROOT / "agent/systemd/steelyard-agent.service",
    ROOT / "controller/systemd/steelyard-controller.service",
    ROOT / "reporter/systemd/steelyard-reporter.service",
)

# The secrets and networks of each service: no more than it needs.
GIVEN = {
    "steelyard_key": {"nginx", "controller-1", "controller-2", "server-1", "server-2", "server-3"},
    "redis_password": {"redis", "controller-1", "controller-2"},
    "admin_token": {"controller-1", "controller-2"},
    "grafana_password": {"grafana"},
}
STATE = {"redis", "controller-1", "controller-2"}
CONTROL = {*GIVEN["steelyard_key"], "memcached", "prometheus", "grafana"}

# The default addresses of published ports.
LOOPBACK = ("127.0.0.1:", "${STEELYARD_BIND:-127.0.0.1}:")

# systemd's own estimate, from 0 (safe) to 10; the rest is the network, and the agent's /proc.
EXPOSED = {"steelyard-agent": 1.5, "steelyard-controller": 1.4, "steelyard-reporter": 1.4}


@pytest.fixture(params=sorted(SERVICES))
def service(request: pytest.FixtureRequest) -> dict[str, Any]:
    return SERVICES[request.param]


def last_user(dockerfile: str, target: str | None) -> str | None:
    """Return the user of an image, by a Dockerfile's stage."""
    stage, users = "", dict[str, str | None]()
    for line in (ROOT / dockerfile).read_text(encoding="utf-8").splitlines():
        words = line.split()
        if words[:1] == ["FROM"]:
            stage = words[3] if len(words) > 3 else "the last"
            users[stage] = users.get(words[1])
        elif words[:1] == ["USER"]:
            users[stage] = words[1]
    return users[target or stage]


def test_a_container_gains_no_rights_and_writes_nowhere_else(service: dict[str, Any]) -> None:
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    for more in ("cap_add", "privileged", "devices", "pid", "ipc", "network_mode", "userns_mode"):
        assert more not in service
    for mount in service.get("volumes", []):
        source = mount.split(":")[0]
        assert source in COMPOSE["volumes"] or mount.endswith(":ro"), mount
        assert "docker.sock" not in mount


def test_a_container_does_not_run_as_root(service: dict[str, Any]) -> None:
    user = service.get("user")
    if user is None:
        build = service["build"]
        user = last_user(build["dockerfile"], build.get("target"))
    assert user is not None
    assert int(user.split(":")[0]) > 0


def test_a_container_cannot_take_the_machine(service: dict[str, Any]) -> None:
    assert service["mem_limit"]
    assert int(service["pids_limit"]) > 0
    assert service["logging"]["options"].keys() == {"max-size", "max-file"}


def test_ports_are_published_on_loopback(service: dict[str, Any]) -> None:
    for port in service.get("ports", []):
        assert port.startswith(LOOPBACK), port


def test_secrets_are_files_and_no_environment(service: dict[str, Any]) -> None:
    for name, value in (service.get("environment") or {}).items():
        if re.search("KEY|TOKEN|PASSWORD|SECRET", name):
            assert name.endswith("_FILE"), name
            assert str(value).startswith("/run/secrets/"), name
    assert not re.search(r"(password|token|key)=[^$\s]", " ".join(map(str, service.get("command", []))), re.I)


def test_an_image_has_a_version(service: dict[str, Any]) -> None:
    name, _, version = service["image"].rpartition(":")
    assert name
    assert version != "latest"


def test_each_secret_and_network_is_for_those_who_need_it() -> None:
    given = {
        secret: {name for name, each in SERVICES.items() if secret in each.get("secrets", [])}
        for secret in COMPOSE["secrets"]
    }
    assert given == GIVEN
    on = {
        network: {name for name, each in SERVICES.items() if network in each["networks"]}
        for network in COMPOSE["networks"]
    }
    assert on["state"] == STATE
    assert on["control"] == CONTROL
    # Only this network reaches the outside and has ports on the machine.
    assert [name for name, each in COMPOSE["networks"].items() if not (each or {}).get("internal")] == [
        "edge"
    ]
    assert {"memcached", "redis"}.isdisjoint(on["edge"])


def test_no_secret_is_copied_into_an_image() -> None:
    ignored = (ROOT / ".dockerignore").read_text().split()
    assert {"secrets", ".env"} <= set(ignored)
    for dockerfile in ROOT.glob("*/Dockerfile"):
        text = dockerfile.read_text()
        assert not re.search(r"^(COPY|ADD) \.? ", text, re.MULTILINE), dockerfile
        assert not re.search(r"^(ARG|ENV) .*(KEY|TOKEN|PASSWORD|SECRET)", text, re.MULTILINE), dockerfile


def test_secrets_are_made_at_random_and_for_their_group_alone(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    environment = {
        **os.environ,
        "STEELYARD_SECRETS": str(folder),
        "STEELYARD_ENV_FILE": str(tmp_path / "env"),
    }
    for _ in range(2):  # the second run changes nothing
        subprocess.run([ROOT / "deploy/compose/secrets"], env=environment, check=True, capture_output=True)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert made.keys() == COMPOSE["secrets"].keys()
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch("[0-9a-f]{64}", text) for text in made.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o750
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o440
        assert path.stat().st_gid != 0
    assert stat.S_IMODE((tmp_path / "env").stat().st_mode) == 0o640


# The closed ways out of a service; systemd.exec(5) explains each.
SHUT = {
    "DynamicUser": "yes",
    "NoNewPrivileges": "yes",
    "CapabilityBoundingSet": "",
    "AmbientCapabilities": "",
    "RestrictSUIDSGID": "yes",
    "RestrictNamespaces": "yes",
    "RestrictRealtime": "yes",
    "LockPersonality": "yes",
    "MemoryDenyWriteExecute": "yes",
    "SystemCallArchitectures": "native",
    "SystemCallErrorNumber": "EPERM",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "PrivateDevices": "yes",
    "PrivateMounts": "yes",
    "ProtectKernelTunables": "yes",
    "ProtectKernelModules": "yes",
    "ProtectKernelLogs": "yes",
    "ProtectControlGroups": "yes",
    "ProtectClock": "yes",
    "ProtectHostname": "yes",
    "RemoveIPC": "yes",
    "RestrictAddressFamilies": "AF_INET AF_INET6 AF_UNIX",
}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_shuts_every_way_out(unit: Path) -> None:
    parser = ConfigParser(strict=False, interpolation=None, delimiters="=", comment_prefixes="#")
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    text = unit.read_text(encoding="utf-8")
    parser.read_string(text)
    service = parser["Service"]
    assert {name: service.get(name) for name in SHUT} == SHUT
    assert "SystemCallFilter=@system-service\nSystemCallFilter=~@privileged @resources\n" in text
    assert {"MemoryMax", "TasksMax"} <= set(service)
    # `systemctl show` would print a secret in the unit or its environment.
    assert not re.search(r"^Environment=.*(KEY|TOKEN|PASSWORD)=", text, re.MULTILINE)


def test_the_controllers_secrets_come_as_credentials() -> None:
    text = UNITS[1].read_text(encoding="utf-8")
    for name, flag in (
        ("key", "KEY_FILE"), ("admin_token", "ADMIN_TOKEN_FILE"), ("redis_password", "STATE_PASSWORD_FILE")
    ):  # fmt: skip
        assert f"\nLoadCredential={name}:/etc/steelyard/{name}\n" in text
        assert f"\nEnvironment=STEELYARD_{flag}=%d/{name}\n" in text


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_finds_a_unit_little_exposed(unit: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.fail("systemd-analyze is not installed (Debian package systemd): run `make setup-tests`")
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    level = re.search(r"Overall exposure level for \S+: ([0-9.]+)", judged)
    assert level is not None
    assert float(level[1]) <= EXPOSED[unit.stem]
