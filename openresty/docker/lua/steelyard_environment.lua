-- luacheck: std ngx_lua, read globals io os
--- The image's options of init_worker, from the environment.
--
-- Secrets come as files, which do not show in `docker inspect`; one that is
-- named and cannot be read is an error, so that nothing goes on without it.

local _M = {}


--- What a variable lists; nil when there is none.
local function list(name)
    local parts = {}
    for part in string.gmatch(os.getenv(name) or "", "[^%s,]+") do
        parts[#parts + 1] = part
    end
    return parts[1] and parts
end


local function secret(name)
    local path = os.getenv(name)
    if not path or path == "" then
        return nil
    end
    local file, why = io.open(path, "r")
    if not file then
        error("steelyard: " .. name .. ": " .. why .. "; mount the secret there, or leave " .. name .. " out", 0)
    end
    local line = file:read("*l") -- a file of tokens may hold several
    file:close()
    return (string.gsub(line or "", "\r$", ""))
end


--- Return the options of one upstream, `name`; without a name those of none, to which `any_upstream` is to be added.
function _M.options(name)
    local state_dir, zone = os.getenv("STEELYARD_STATE_DIR"), os.getenv("STEELYARD_ZONE")
    return {
        memcached = list("STEELYARD_MEMCACHED"),
        controller = list("STEELYARD_CONTROLLER"),
        controller_token = secret("STEELYARD_CONTROLLER_TOKEN_FILE"),
        key = secret("STEELYARD_KEY_FILE"),
        lb = os.getenv("STEELYARD_LB") or "edge-1",
        zone = zone ~= "" and zone or nil,
        state_dir = state_dir ~= "" and state_dir or nil,
        allow = list("STEELYARD_STATUS_ALLOW"),
        upstreams = name and { [name] = { bootstrap = list("STEELYARD_BOOTSTRAP") } } or nil,
    }
end


return _M
