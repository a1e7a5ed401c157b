#!/usr/bin/env bash
# ngx.shared.DICT:safe_set deletes the value that is there when it finds no room for the new one.
#
# Versions:  nginx 1.22.1 (Debian 12), libnginx-mod-http-lua 0.10.23, lua-resty-core 0.1.25
# Expected:  "safe_set: Similar to the set method, but never overrides the (least recently used) unexpired items
#            in the store when running out of storage. In this case, it will immediately return nil and the
#            string 'no memory'." (README of lua-nginx-module). So a failed write changes nothing.
# Seen:      the key has no value afterwards: ngx_http_lua_ffi_shdict_store() removes the old node before it
#            allocates the new one. Other keys are untouched. The first result is false, not nil.
# Steelyard: io/table_store.lua pads a table to the size of its pages, so that new weights are written in place,
#            and writes the old text again after a failure.
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
  lua_shared_dict small 64k;
  server {
    listen unix:$folder/socket;
    location / {
      content_by_lua_block {
        local dict = ngx.shared.small
        assert(dict:safe_set("other", "kept"))
        assert(dict:safe_set("key", string.rep("a", 5000)))
        local ok, err = dict:safe_set("key", string.rep("b", 500000))
        ngx.say(tostring(ok), "; ", err, "; key: ", tostring(dict:get("key")), "; other: ", dict:get("other"))
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
echo "a write that finds no room: $seen"
[ "$seen" = "false; no memory; key: nil; other: kept" ]
