rockspec_format = "3.0"
package = "lua-resty-vnswrr"
version = "0.1.0-1"
source = {
    -- Until the repository has a public address; `luarocks make` takes the files beside this one.
    url = "git+https://example.com/lua-resty-vnswrr.git",
    tag = "v0.1.0",
}
description = {
    summary = "Virtual-node smooth weighted round robin: nginx's order at O(1) a pick",
    detailed = "A ring of virtual nodes for OpenResty and nginx with ngx_lua, or plain LuaJIT. "
        .. "It starts anywhere in the cycle, so that shares are right from the first pick on, "
        .. "and takes updates in slices.",
    license = "Apache-2.0",
    labels = { "openresty", "nginx", "load-balancing" },
}
dependencies = { "lua == 5.1" } -- LuaJIT
build = {
    type = "builtin",
    modules = {
        ["resty.vnswrr"] = "lib/resty/vnswrr.lua",
        ["resty.vnswrr.rows"] = "lib/resty/vnswrr/rows.lua",
        ["resty.vnswrr.sort"] = "lib/resty/vnswrr/sort.lua",
        ["resty.vnswrr.split"] = "lib/resty/vnswrr/split.lua",
        ["resty.vnswrr.swrr"] = "lib/resty/vnswrr/swrr.lua",
    },
}
