#!/usr/bin/env bash
# pymemcache's HashClient reports no failed key from set_many when a server is gone, if it ignores errors.
#
# Versions:  pymemcache 4.0.0 (PyPI), Memcached 1.6.18 (Debian 12, 1.6.18-1+deb12u1)
# Expected:  set_many "Returns a list of keys that failed to be inserted" (its documentation). ignore_exc makes "the
#            get, gets, get_many and gets_many calls" take errors for misses. It says nothing of writes.
# Seen:      with ignore_exc and one of two servers gone, set_many returns an empty list. Half of the values are
#            stored nowhere, and get_many does not find them. A set() of such a key returns False.
# Steelyard: has its own pool: protocol/…/memcached_writer.py asks the next server for the values of a lost one.
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
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --target packages pymemcache==4.0.0

PYTHONPATH=packages python3 - <<'PYTHON'
import os

import pymemcache
from pymemcache.client.hash import HashClient

keys = [f"key-{n}" for n in range(40)]
client = HashClient([os.path.abspath("socket"), os.path.abspath("gone")], ignore_exc=True, retry_attempts=10)
failed = client.set_many(dict.fromkeys(keys, "1"), noreply=False)
found = client.get_many(keys)
lost = next(key for key in keys if key not in found)
single = client.set(lost, "1", noreply=False)
print(f"pymemcache {pymemcache.__version__}: of {len(keys)} values, set_many names {len(failed)} as failed; "
      f"{len(keys) - len(found)} are missing; set of one of these: {single}")
assert failed == []
assert 5 < len(found) < 35
assert single is False
PYTHON
