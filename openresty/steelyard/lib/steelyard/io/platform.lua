--- What differs between OpenResty and Debian's nginx: the one Lua file that
-- knows. (For nginx.conf it is bin/steelyard-upstream.)
--
-- Debian ships the Memcached client of lua-resty-memcached as `nginx.memcached`
-- (package lua-nginx-memcached), and an ngx_lua without pools of its own for
-- connections to the servers: there nginx's `keepalive` has to do, which looks
-- through its pool one by one, so that large pools are split into shards.

local balancer = require "ngx.balancer"
local ffi = require "ffi"

ffi.cdef "extern uintptr_t ngx_is_privileged_agent;"

-- nginx's own keepalive_timeout; and as long-lived as its keepalive_time lets
-- connections be (ngx_lua's default would close each after 100 requests).
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


--- Tell whether nginx has OpenResty's patches of the core; this variable comes with one of them. Only they let
-- balancer_by_lua end a request with any status, and only with them a try is not given back when a connection
-- of ngx_lua's own pool turns out closed (from OpenResty 1.29.2.4 on).
local function has_core_patches()
    return (pcall(function() return ffi.C.ngx_is_privileged_agent end))
end


local module, name = client()
local enable_keepalive = balancer.enable_keepalive

return {
    name = name == "nginx.memcached" and "debian" or "openresty",
    ngx_lua_version = ngx.config.ngx_lua_version,
    memcached = module,
    -- Keep the connection to the server that was just set; nil where nginx's `keepalive` does.
    keep_alive = enable_keepalive and function()
        return enable_keepalive(IDLE_S, MAX_REQUESTS)
    end,
    -- Tells whether balancer_by_lua may end a request with any status.
    any_status = has_core_patches(),
    -- Tells whether a request needs a try to spare for a pooled connection that was closed.
    spare_try = enable_keepalive ~= nil and has_core_patches(),
    -- Tells whether pools have to be split.
    sharded = enable_keepalive == nil,
}
