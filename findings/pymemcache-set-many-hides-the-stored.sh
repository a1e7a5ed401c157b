#!/usr/bin/env bash
# pymemcache's set_many raises if one value is too large, names no key, and has stored the others.
#
# Versions:  pymemcache 4.0.0 and 3.5.2 (PyPI), Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  set_many "Returns a list of keys that failed to be inserted" (its documentation). So it returns
#            ["large"], and the caller knows that the other values are stored.
# Seen:      with noreply=False, it raises MemcacheServerError("object too large for cache") without a key. All other
#            values are stored, those after the large one as well, because all commands were sent first. The list has
#            only keys that the server answers NOT_STORED to, which `set` never does.
# Steelyard: one report that was too large made a writer take its Memcached for failed. So all other reports waited,
#            too. protocol/…/memcached_client.py now sends the commands itself, and reads each answer.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root memcached=1.6.18-1+deb12u1 \
  libevent-2.1-7=2.1.12-stable-8+deb12u1 libsasl2-2=2.1.28+dfsg-10+deb12u1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
usr/bin/memcached -u "$(id -un)" -s "$folder/socket" &
for _ in $(seq 50); do [ -S "$folder/socket" ] && break; sleep 0.1; done
for version in 4.0.0 3.5.2; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target "$version" \
    "pymemcache==$version"
  PYTHONPATH="$version" python3 - <<'PYTHON'
import pymemcache
from pymemcache.client.base import Client

client = Client("unix:socket")
client.flush_all(noreply=False)
values = {"before": "1", "large": "x" * 2_000_000, "after": "3"}
try:
    outcome = f"returns {client.set_many(values, noreply=False)}"
except pymemcache.MemcacheServerError as error:
    outcome = f"raises {type(error).__name__}{error.args}"
stored = sorted(client.get_many(list(values)))
print(f"pymemcache {pymemcache.__version__}: set_many {outcome}; stored: {stored}")
assert outcome == "raises MemcacheServerError(b'object too large for cache',)"
assert stored == ["after", "before"]
PYTHON
done
