"""The nginx under test: the one on PATH, or the one in STEELYARD_NGINX.

The variable names a binary called nginx, or the prefix of an OpenResty or an nginx. It becomes the first on
PATH, for the tests and all their processes.
"""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from steelyard_loadtest.machine.find_programs import modules
from steelyard_loadtest.machine.programs import LUA

VARIABLE = "STEELYARD_NGINX"

OPENRESTY = Path(__file__).parents[1] / "openresty"
LUA_PATH = f"{OPENRESTY}/steelyard/lib/?.lua;{OPENRESTY}/lua-resty-vnswrr/lib/?.lua"

# This requires all that Steelyard needs in an nginx: ngx_lua, lua-resty-core, cjson, a Memcached client.
# nginx starts and ends itself, because `nginx -t` runs no Lua.
TRIAL = f"""
daemon off; master_process off; error_log stderr;
events {{}}
http {{
  access_log off;
  lua_package_path "{LUA_PATH};;";
  init_by_lua_block {{ require "steelyard"; require "cjson.safe" }}
  init_worker_by_lua_block {{ os.exit(0) }}
}}
"""


def put_on_path(named: str) -> None:
    """Make the named nginx the first on PATH. Raises ValueError if Steelyard does not run on it."""
    binary = _binary(Path(named))
    folder = str(binary.parent)
    if os.environ["PATH"].split(os.pathsep)[0] != folder:
        os.environ["PATH"] = os.pathsep.join([folder, os.environ["PATH"]])
    lines = load_modules()
    with tempfile.TemporaryDirectory() as home:
        config = Path(home) / "nginx.conf"
        config.write_text(f"{lines} pid {home}/nginx.pid; {TRIAL}")
        command = [str(binary), "-e", "stderr", "-p", home, "-c", str(config)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"{VARIABLE}: Steelyard does not run on {binary}:\n{done.stderr.strip()}")


def _binary(named: Path) -> Path:
    tried = [named] if not named.is_dir() else [named / "nginx/sbin/nginx", named / "sbin/nginx"]
    for path in tried:
        binary = path.resolve()  # OpenResty's bin/openresty is a link to its nginx
        if binary.is_file() and os.access(binary, os.X_OK):
            if binary.name != "nginx":
                raise ValueError(f"{VARIABLE}: {binary} is not called nginx, so nobody would find it on PATH")
            return binary
    places = " or ".join(map(str, tried))
    raise ValueError(
        f"{VARIABLE} is {named}, and there is no program at {places}; "
        "name an nginx, or the prefix of an OpenResty"
    )


def load_modules() -> str:
    """Return the load_module lines for Lua in the nginx on PATH: none if Lua is built in."""
    nginx = shutil.which("nginx")
    files = modules(nginx, LUA) if nginx else None
    if files is None:
        raise ValueError(
            f"{nginx or 'nginx'} has no Lua: run `make setup-tests`, or name another in {VARIABLE}"
        )
    return " ".join(f"load_module {file};" for file in files)


def for_this_nginx(example: str) -> str:
    """Return Debian's nginx.conf, without its load_module lines if Lua is built in."""
    return example if load_modules() else re.sub(r"(?m)^load_module .*", "", example)
