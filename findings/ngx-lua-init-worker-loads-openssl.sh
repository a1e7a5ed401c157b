#!/usr/bin/env bash
# An empty init_worker_by_lua_block makes each worker of nginx 3 MB larger: 2 MB are pages of OpenSSL.
#
# Versions:  nginx 1.22.1 (Debian 12), libnginx-mod-http-lua 0.10.23, lua-resty-core 0.1.25, OpenSSL 3.0
# Expected:  README of ngx_lua: the directive runs Lua code "upon every Nginx worker process's startup". No code, and a
#            configuration without TLS, should cost nothing, as init_by_lua_block does.
# Seen:      a worker has 4.8 MB of resident memory without Lua and with an empty init_by_lua_block. It has 7.9 MB with
#            an empty init_worker_by_lua_block. libcrypto and libssl have .7 of the 4.8 MB, and 2.7 of the 7.9 MB.
# Steelyard: docs/research/benchmarks-dataplane.md compares resident memory with an nginx without any Lua, and names it.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
chmod 755 "$folder"
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root nginx=1.22.1-9+deb12u11 \
  libnginx-mod-http-lua=1:0.10.23-1+deb12u1 libnginx-mod-http-ndk=1:0.3.2-3 libluajit2-5.1-2=2.1-20230119-1 \
  lua-resty-core=0.1.25-1 lua-resty-lrucache=0.13-10
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"

python3 -I - <<'PYTHON'
import os
import subprocess
import time
from pathlib import Path

here = os.getcwd()
modules = f"{here}/usr/lib/nginx/modules"
temporary = " ".join(f"{each}_temp_path {here}/t;" for each in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))


def memory_kb(directive: str) -> dict[str, int]:
    """Return a worker's resident memory, and the part of it that is libcrypto's and libssl's."""
    Path("nginx.conf").write_text(f"""
{"user root;" if os.geteuid() == 0 else ""}
load_module {modules}/ndk_http_module.so; load_module {modules}/ngx_http_lua_module.so;
daemon off; worker_processes 1; pid {here}/pid; error_log {here}/error.log; events {{}}
http {{
  access_log off; {temporary}
  lua_package_path "{here}/usr/share/lua/5.1/?.lua;;";
  {directive}
  server {{ listen unix:{here}/socket; }}
}}
""", encoding="utf-8")
    Path("socket").unlink(missing_ok=True)
    nginx = subprocess.Popen(
        [f"{here}/usr/sbin/nginx", "-p", here, "-e", f"{here}/error.log", "-c", f"{here}/nginx.conf"]
    )
    try:
        children = Path(f"/proc/{nginx.pid}/task/{nginx.pid}/children")
        while not children.read_text().split():
            assert nginx.poll() is None, Path("error.log").read_text()
            time.sleep(0.05)
        time.sleep(1)
        seen = {"all": 0, "OpenSSL": 0}
        mapped = ""
        for line in Path(f"/proc/{children.read_text().split()[0]}/smaps").read_text().splitlines():
            words = line.split()
            if "-" in words[0] and not words[0].endswith(":"):
                mapped = words[-1]
            elif words[0] == "Rss:":
                seen["all"] += int(words[1])
                seen["OpenSSL"] += int(words[1]) if "libcrypto" in mapped or "libssl" in mapped else 0
        return seen
    finally:
        nginx.terminate()
        nginx.wait()


found = {
    name: memory_kb(directive)
    for name, directive in (
        ("no Lua", ""),
        ("init_by_lua_block {}", "init_by_lua_block { }"),
        ("init_worker_by_lua_block {}", "init_worker_by_lua_block { }"),
    )
}
for name, seen in found.items():
    print(f"{name:30} resident {seen['all']:6} kB, of it libcrypto and libssl {seen['OpenSSL']:5} kB")
none, early, late = found.values()
assert late["OpenSSL"] - none["OpenSSL"] > 1000
assert late["all"] - none["all"] > 1000
assert early["OpenSSL"] - none["OpenSSL"] < 300
PYTHON
