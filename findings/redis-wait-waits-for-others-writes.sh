#!/usr/bin/env bash
# Redis's WAIT waits for other clients' writes if the connection has sent any command before, such as PING.
#
# Versions:  redis-server 7.0.15 (Debian 12, 5:7.0.15-1~deb12u10)
# Expected:  WAIT "blocks the current client until all the previous write commands are successfully transferred [...].
#            The command will always return the number of replicas that acknowledged the write commands sent by the
#            current client before the WAIT command" (Redis's reference). A client that wrote nothing has nothing to
#            wait for.
# Seen:      a replica hangs, and another client writes. `WAIT 1 200` as a connection's first command is 1 at once.
#            After PING, GET, or a script that wrote nothing, it takes the 200 ms and is 0. Each command sets the
#            position that WAIT waits for, whether it wrote or not (processCommand in server.c).
# Steelyard: store/redis_connection.py judges WAIT's answer only for a script that wrote.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill -CONT $(jobs -p) 2>/dev/null || true; kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root redis-server=5:7.0.15-1~deb12u10 redis-tools=5:7.0.15-1~deb12u10 \
  liblua5.1-0 liblzf1 libjemalloc2 libatomic1
for package in *.deb; do dpkg -x "$package" .; done
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
port=$(python3 -c 'import socket; print(socket.create_server(("127.0.0.1", 0)).getsockname()[1])')
mkdir primary replica
usr/bin/redis-server --port "$port" --bind 127.0.0.1 --save '' --dir primary --repl-diskless-sync-delay 0 >primary.log &
usr/bin/redis-server --port 0 --unixsocket "$folder/socket" --save '' --dir replica --replicaof 127.0.0.1 "$port" \
  >replica.log &
replica=$!

ask() { printf '%s\n' "$@" | usr/bin/redis-cli -p "$port" | tail -1; }
for _ in $(seq 100); do
  [ "$(ask 'SET a 1' 'WAIT 1 100' 2>/dev/null)" = 1 ] && break
  sleep 0.1
done
kill -STOP "$replica"
ask 'SET a 2' >/dev/null  # another client's write, which no replica gets

first=$(usr/bin/redis-cli -p "$port" WAIT 1 200)  # redis-cli with a pipe sends a command of its own first
ping=$(ask 'PING' 'WAIT 1 200')
get=$(ask 'GET a' 'WAIT 1 200')
script=$(ask 'EVAL "return 0" 0' 'WAIT 1 200')
usr/bin/redis-server --version
echo "replicas by WAIT 1 200: as the first command $first; after PING $ping, GET $get, a script that wrote nothing $script"
[ "$first $ping $get $script" = "1 0 0 0" ]
