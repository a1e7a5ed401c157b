#!/usr/bin/env bash
# In a script, Redis's TIME goes on, and a key outlives its expiry: a lease of 1 ms is held 0.2 s later.
#
# Versions:  redis-server 7.0.15 (Debian 12, 5:7.0.15-1~deb12u10)
# Expected:  a key with PX 1 is gone 200 ms later, by the clock that TIME shows ("returns the current server time").
# Seen:      within one script, TIME moves on by 200 ms, GET still returns the value, and PTTL is 0. Expiry goes by the
#            time at which the script began. One script compares TIME with a stored time, and another one relies on the
#            expiry of the same key: they disagree. After the script the key is gone.
# Steelyard: its scripts (store/redis_scripts.py) judge the lease by its expiry alone. They use TIME only for ids and
#            ranges of streams.
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

cat > lease.lua <<'LUA'
local function now_ms()
    local now = redis.call('TIME')
    return now[1] * 1000 + now[2] / 1000
end
local began_ms = now_ms()
redis.call('SET', KEYS[1], 'holder', 'PX', 1)
while now_ms() < began_ms + 200 do end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), now_ms() >= began_ms + 200 and 'TIME went on'}
LUA
in_script=$(usr/bin/redis-cli -s socket --eval lease.lua lease)
after=$(usr/bin/redis-cli -s socket GET lease)
usr/bin/redis-server --version
echo "a key with PX 1, 200 ms later in the same script: $(echo "$in_script" | paste -sd, -); after the script: '$after'"
[ "$(echo "$in_script" | paste -sd, -)" = "holder,0,TIME went on" ] && [ -z "$after" ]
