"""The programs that a stage needs, and the files of its folder (I/O)."""

import platform
import secrets
import shutil
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.find_programs import find
from steelyard_loadtest.machine.programs import LUA
from steelyard_loadtest.reporting.conditions import version_of
from steelyard_loadtest.reporting.publish import write_text
from steelyard_loadtest.rig.proxies.steelyard import steelyard_blocks

from steelyard_resilience import CHECKOUT
from steelyard_resilience.stage import hosts, layout
from steelyard_resilience.stage.hosts import Settings
from steelyard_resilience.stage.layout import Place

PACKAGES = {"ip": "iproute2", "iptables": "iptables", "redis-server": "redis-server", "nsenter": "util-linux"}
"""Debian's package of each program."""

SECRET_BYTES = 32

FAKETIME = "*/faketime/libfaketime.so.1"
"""Below /usr/lib; on Debian in a folder named after the machine's architecture."""


def place(folder: Path, settings: Settings) -> Place:
    """Find the programs. Raises SetupError with the missing packages."""
    programs = find(None)
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    haproxy = settings.front != "haproxy" or "haproxy" in programs.others
    installed = {"memcached": programs.memcached, "libnginx-mod-http-lua": programs.modules[LUA] is not None}
    missing += [package for package, is_there in {**installed, "haproxy": haproxy}.items() if not is_there]
    if settings.front == "envoy" and "envoy" not in programs.others:
        raise SetupError("Envoy is not installed: scripts/setup --with-bench")
    if missing:
        raise SetupError(f"not installed: {', '.join(missing)} (apt-get install {' '.join(missing)})")
    return Place(
        folder=folder.resolve(),
        programs=programs,
        clocks=_faketime() if settings.faketime else None,
    )


def write(place: Place, settings: Settings) -> None:
    """Make the folder's files, and remove Redis's files of an earlier stage. Raises ProgramError."""
    shutil.rmtree(place.redis_dir, ignore_errors=True)
    for folder in ("logs", "secrets", "nginx-temp", "redis", "nginx-state"):
        (place.folder / folder).mkdir(parents=True, exist_ok=True)
    (place.folder / "secrets").chmod(0o700)
    for name in ("key", "read-token"):
        place.secret(name).touch(0o600)
        place.secret(name).write_text(secrets.token_hex(SECRET_BYTES) + "\n")
    if settings.faketime:
        for host in hosts.addresses(settings):
            step_clock(place, host, 0)
    clients, nginx = layout.CONCURRENCY, place.programs.nginx
    # nginx keeps idle connections for its minute, no longer: in a soak the addresses behind them vanish.
    block = steelyard_blocks(CHECKOUT, nginx, servers=settings.servers, clients=clients, kept=())
    (place.folder / "nginx.conf").write_text(layout.nginx_conf(settings, place, block))
    if settings.front == "haproxy":
        (place.folder / "haproxy.cfg").write_text(layout.haproxy_cfg(settings))
    if settings.front == "envoy":
        (place.folder / "envoy.yaml").write_text(layout.envoy_yaml(settings))
    (place.folder / "controller.yaml").write_text(layout.controller_yaml(settings))


def step_clock(place: Place, host: str, seconds: float) -> None:
    """Set a host's clock `seconds` from the true time; its daemons follow within a second."""
    write_text(place.clock(host), f"{seconds:+f}s\n")


def versions() -> dict[str, str]:
    """Return the versions of a stage's programs. Raises SetupError without nginx."""
    return {
        "nginx": find(None).versions["nginx"].removeprefix("nginx/"),
        "memcached": version_of(["memcached", "-V"]),
        "Redis": version_of(["redis-server", "--version"]),
        "Python": platform.python_version(),
    }


def _faketime() -> Path:
    for path in Path("/usr/lib").glob(FAKETIME):
        return path
    raise SetupError("libfaketime is not installed; it steps clocks: apt-get install faketime")
