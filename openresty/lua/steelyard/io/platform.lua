--- What differs between OpenResty and Debian's nginx: the one Lua file that
-- knows. (For nginx.conf it is bin/steelyard-upstream.)
--
-- Debian ships the Memcached client of lua-resty-memcached as `nginx.memcached`
-- (package lua-nginx-memcached), and an ngx_lua without pools of its own for
-- connections to the servers: there nginx's `keepalive` has to do, which looks
-- through its pool one by one, so that large pools are split into shards.

local balancer = require "ngx.balancer"

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
    -- Tells whether pools have to be split.
    sharded = enable_keepalive == nil,
}
