#!/usr/bin/env bash
# ngx.shared.DICT:expire brings an expired value back, and ttl() of one is negative.
#
# Versions:  nginx 1.22.1 (Debian 12), libnginx-mod-http-lua 0.10.23, lua-resty-core 0.1.25
# Expected:  README of lua-nginx-module, on ttl(): "If the key does not exist (or has already expired), this method
#            will return nil and the error string "not found"". On expire(): "If the key does not exist", the same.
#            For get(), add() and replace(), a key that has expired is no key.
# Seen:      after get() has returned nil, ttl() returns about -0.1, expire(key, 10) returns true, and get() returns
#            the old value for ten seconds more. The same holds for a key that flush_all() has emptied: its ttl is
#            -1.8e9. Both functions look at the memory of expired values too, as get_stale() does. It is freed bit by
#            bit, so a value comes back only if no other call has freed it.
# Steelyard: calls ttl() only after a get(), and never expire(). io/shared_dict.lua has ends of its own.
set -euo pipefail

folder=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq -o APT::Sandbox::User=root nginx=1.22.1-9+deb12u11 \
  libnginx-mod-http-lua=1:0.10.23-1+deb12u1 libnginx-mod-http-ndk=1:0.3.2-3 libluajit2-5.1-2=2.1-20230119-1 \
  lua-resty-core=0.1.25-1 lua-resty-lrucache=0.13-10
for package in *.deb; do dpkg -x "$package" .; done

cat > "$folder/nginx.conf" <<CONF
load_module $folder/usr/lib/nginx/modules/ndk_http_module.so;
load_module $folder/usr/lib/nginx/modules/ngx_http_lua_module.so;
daemon off; master_process off; pid $folder/nginx.pid; error_log $folder/error.log;
events {}
http {
  access_log off;
  client_body_temp_path $folder/b; proxy_temp_path $folder/p; fastcgi_temp_path $folder/f;
  uwsgi_temp_path $folder/u; scgi_temp_path $folder/s;
  lua_package_path "$folder/usr/share/lua/5.1/?.lua;;";
  lua_shared_dict locks 64k;
  server {
    listen unix:$folder/socket;
    location / {
      content_by_lua_block {
        local dict = ngx.shared.locks
        for i = 1, 9 do
          dict:set("older" .. i, true) -- get() frees one or two of the oldest values, if they have expired
        end
        dict:set("lock", "mine", 0.05)
        ngx.sleep(0.15)
        local expired, ttl = dict:get("lock"), dict:ttl("lock")
        local ok = dict:expire("lock", 10)
        ngx.say("get: ", tostring(expired), ", ttl below 0: ", tostring(ttl and ttl < 0), ", expire: ", tostring(ok),
                ", get: ", tostring(dict:get("lock")))
        dict:flush_all()
        expired, ok = dict:get("lock"), dict:expire("lock", 10)
        ngx.say("after flush_all, get: ", tostring(expired), ", expire: ", tostring(ok),
                ", get: ", tostring(dict:get("lock")))
      }
    }
  }
}
CONF
export LD_LIBRARY_PATH="$folder/usr/lib/x86_64-linux-gnu"
usr/sbin/nginx -p "$folder" -e "$folder/error.log" -c "$folder/nginx.conf" &
for _ in $(seq 50); do [ -S "$folder/socket" ] && break; sleep 0.1; done
seen=$(curl -s --unix-socket "$folder/socket" http://x/)
usr/sbin/nginx -v 2>&1
echo "$seen"
[ "$seen" = "get: nil, ttl below 0: true, expire: true, get: mine
after flush_all, get: nil, expire: true, get: mine" ]
