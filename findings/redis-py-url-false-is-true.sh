#!/usr/bin/env bash
# redis-py reads `decode_responses=False` in a URL as true, and any path as a database, 12 for /1/2.
#
# Versions:  redis 8.1.0 and 5.3.1 (PyPI), redis-server 7.0.15 (Debian 12)
# Expected:  "All querystring options are cast to their appropriate Python types. Boolean arguments can be specified
#            with string values "True"/"False" or "Yes"/"No". Values that cannot be properly cast cause a ValueError"
#            (docstring of ConnectionPool.from_url).
# Seen:      `?decode_responses=False` gives str, as True does: the option has no cast, and the text "False" is true.
#            The path /1/2 (redis://host/1/2) is database 12, and /production is database 0, without an error.
# Steelyard: store/redis_url.py refuses such paths, and all options but those that it knows.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  liblua5.1-0 liblzf1 libjemalloc2 libatomic1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
usr/bin/redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir "$folder" >redis.log &
for _ in $(seq 50); do [ -S socket ] && break; sleep 0.1; done

for version in 8.1.0 5.3.1; do
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
    --target "$version" "redis==$version"
  PYTHONPATH="$folder/$version" python3 -s - "unix://$folder/socket" <<'PYTHON'
import sys

import redis
from redis.connection import parse_url

kinds = {}
for option in ("False", "True", None):
    with redis.from_url(sys.argv[1] + (f"?decode_responses={option}" if option else "")) as client:
        client.set("name", "value")
        kinds[option] = type(client.get("name")).__name__
databases = {path: parse_url(f"redis://host{path}").get("db", 0) for path in ("/1", "/1/2", "/production")}
print(f"redis {redis.__version__}: decode_responses gives {kinds}; databases {databases}")
assert kinds == {"False": "str", "True": "str", None: "bytes"}
assert databases == {"/1": 1, "/1/2": 12, "/production": 0}
PYTHON
done
