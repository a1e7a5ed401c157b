"""What a stage needs of this machine, and the folder that it works in (I/O)."""

import os
import secrets
import shutil
import subprocess
from pathlib import Path

from steelyard_loadtest.machine.errors import SetupError
from steelyard_loadtest.machine.found import LUA, find
from steelyard_loadtest.stage import clocks, hosts, render
from steelyard_loadtest.stage.plan import Place
from steelyard_loadtest.stage.settings import Settings

CHECKOUT = Path(__file__).resolve().parents[3]

TEMPLATE = Path(__file__).with_name("templates") / "nginx.conf"

PACKAGES = {"ip": "iproute2", "iptables": "iptables", "redis-server": "redis-server", "nsenter": "util-linux"}
"""Programs that are only run, and Debian's packages that have them."""

SECRET_BYTES = 32


def place(folder: Path, settings: Settings) -> Place:
    """Find the programs; say which packages are missing. Raises SetupError."""
    found = find(None)
    missing = sorted({package for program, package in PACKAGES.items() if shutil.which(program) is None})
    if found.memcached is None:
        missing.append("memcached")
    if found.modules[LUA] is None:
        missing.append("libnginx-mod-http-lua")
    if missing:
        raise SetupError(f"not installed: {', '.join(missing)} (apt-get install {' '.join(missing)})")
    return Place(
        folder=folder.resolve(),
        checkout=CHECKOUT,
        nginx=found.nginx,
        nginx_modules=found.modules[LUA] or (),
        memcached=found.memcached or "",
        redis=shutil.which("redis-server") or "",
        clocks=clocks.library() if settings.faketime else None,
    )


def write(place: Place, settings: Settings) -> None:
    """Make the folder's files; what an earlier stage left of Redis's is gone. Raises SetupError."""
    shutil.rmtree(place.redis_dir, ignore_errors=True)
    for folder in ("logs", "secrets", "nginx-temp", "redis", "nginx-state"):
        (place.folder / folder).mkdir(parents=True, exist_ok=True)
    (place.folder / "secrets").chmod(0o700)
    wanted = [place.admin_token_file]
    wanted += [place.key_file, place.read_token_file] if settings.signed else []
    for path in wanted:
        path.touch(0o600)
        path.write_text(secrets.token_hex(SECRET_BYTES) + "\n")
    if settings.faketime:
        for host in hosts.addresses(settings):
            clocks.step(place, host, 0)
    block = _upstream_block(place, settings)
    template = TEMPLATE.read_text(encoding="utf-8")
    (place.folder / "nginx.conf").write_text(render.nginx(settings, place, template, block))
    (place.folder / "controller.yaml").write_text(render.controller(settings))


def secret(path: Path) -> str:
    """Return what a file of a secret holds."""
    return path.read_text().strip()


def _upstream_block(place: Place, settings: Settings) -> str:
    command = [
        str(place.checkout / "openresty" / "bin" / "steelyard-upstream"), settings.upstream,
        "--servers", str(settings.servers), "--concurrency", str(render.CONCURRENCY), "--nginx", place.nginx,
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ)
    except OSError as error:
        raise SetupError(f"needs a checkout of Steelyard: {error}") from None
    if done.returncode != 0:
        raise SetupError(done.stderr.strip())
    return done.stdout
