#!/usr/bin/env bash
# ngx.shared.DICT keeps a value for ever if its lifetime is shorter than a millisecond.
#
# Versions:  nginx 1.22.1 (Debian 12), libnginx-mod-http-lua 0.10.23, lua-resty-core 0.1.25
# Expected:  README of lua-nginx-module: "The time resolution is 0.001 seconds. If exptime takes the value 0 (which is
#            the default), then the item will never expire". So 0.0004, as the rest of a deadline may be, ends at once
#            or after a millisecond.
# Seen:      set(), incr() with init_ttl, and expire() cut it to 0 ms, and 0 ms means for ever: after 0.2 s the value
#            is there, and its ttl is 0. With 0.001 it is gone. A lock of this kind is never released.
# Steelyard: io/shared_dict.lua adds a minute to each lifetime for nginx, and keeps the true end beside the value.
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
        for name, ttl_s in pairs({ short = 0.0004, long = 0.001 }) do
          assert(dict:set("set_" .. name, 1, ttl_s))
          assert(dict:incr("incr_" .. name, 1, 0, ttl_s))
          dict:set("expire_" .. name, 1)
          assert(dict:expire("expire_" .. name, ttl_s))
        end
        ngx.sleep(0.2)
        for _, name in ipairs({ "short", "long" }) do
          ngx.say(name, ": set ", tostring(dict:get("set_" .. name)), ", incr ", tostring(dict:get("incr_" .. name)),
                  ", expire ", tostring(dict:get("expire_" .. name)))
        end
        ngx.say("ttl: ", tostring(dict:ttl("set_short")))
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
echo "after 0.2 s, of values with 0.4 ms (short) and 1 ms (long): $seen"
[ "$seen" = "short: set 1, incr 1, expire 1
long: set nil, incr nil, expire nil
ttl: 0" ]
