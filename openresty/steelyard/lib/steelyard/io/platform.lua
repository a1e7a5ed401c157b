--- The differences between OpenResty and Debian's nginx, for Lua. (For nginx.conf they are in bin/steelyard-upstream.)
--
-- Debian ships the Memcached client of lua-resty-memcached as `nginx.memcached` (package lua-nginx-memcached). Its
-- ngx_lua has no connection pools of its own, so nginx's `keepalive` is used. That looks through its pool one by one,
-- so large pools are split into shards.

local balancer = require "ngx.balancer"
local ffi = require "ffi"

ffi.cdef "extern uintptr_t ngx_is_privileged_agent;"

-- nginx's default keepalive_timeout. As many requests as a connection gets within nginx's keepalive_time; ngx_lua would
-- close each connection after 100.
local IDLE_S, MAX_REQUESTS = 60, 10000

local function client()
    for _, name in ipairs({ "resty.memcached", "nginx.memcached" }) do
        local ok, module = pcall(require, name)
        if ok then
            return module, name
        end
    end
    error("steelyard: no Memcached client for Lua; on Debian: apt install lua-nginx-memcached; "
          .. "elsewhere: opm get openresty/lua-resty-memcached", 0)
end


--- Tell whether nginx has OpenResty's patches of the core; this variable comes with one of them. Only with the patches
-- can balancer_by_lua end a request with any status. With them (from OpenResty 1.29.2.4 on) nginx does not give a try
-- back when a connection of ngx_lua's pool turns out closed.
local function has_core_patches()
    return (pcall(function() return ffi.C.ngx_is_privileged_agent end))
end


local module, name = client()
local enable_keepalive = balancer.enable_keepalive

return {
    name = name == "nginx.memcached" and "debian" or "openresty",
    ngx_lua_version = ngx.config.ngx_lua_version,
    memcached = module,
    -- Keeps the connection to the server that was just set; nil if nginx's `keepalive` does that.
    keep_alive = enable_keepalive and function()
        return enable_keepalive(IDLE_S, MAX_REQUESTS)
    end,
    -- Tells whether balancer_by_lua may end a request with any status.
    any_status = has_core_patches(),
    -- Tells whether nginx has to be asked for a spare try, for a pooled connection that was closed.
    asks_for_spare = enable_keepalive ~= nil and has_core_patches(),
    -- Tells whether pools are split.
    sharded = enable_keepalive == nil,
}
