--- What differs between OpenResty and Debian's nginx: the one file that knows.
--
-- Debian ships the Memcached client of lua-resty-memcached as `nginx.memcached`
-- (package lua-nginx-memcached).

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

return {
    name = name == "nginx.memcached" and "debian" or "openresty",
    ngx_lua_version = ngx.config.ngx_lua_version,
    memcached = module,
}
