-- luacheck: std ngx_lua, read globals io os
--- The image's options of init_worker, from the environment.
--
-- Secrets come as files, because `docker inspect` shows variables. A named file
-- that cannot be read is an error: nothing may go on without its secret.

local _M = {}


--- The words of a variable, separated by commas or spaces; nil without any.
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
    local line = file:read("*l") -- a file of tokens may have several lines
    file:close()
    return (string.gsub(line or "", "\r$", ""))
end


--- Return the options with one upstream, `name`. Without a name there is none, and the caller adds `any_upstream`.
function _M.options(name)
    local state_dir, zone = os.getenv("STEELYARD_STATE_DIR"), os.getenv("STEELYARD_ZONE")
    local installation = os.getenv("STEELYARD_INSTALLATION")
    return {
        memcached = list("STEELYARD_MEMCACHED"),
        controller = list("STEELYARD_CONTROLLER"),
        controller_token = secret("STEELYARD_CONTROLLER_TOKEN_FILE"),
        key = secret("STEELYARD_KEY_FILE"),
        lb = os.getenv("STEELYARD_LB") or "edge-1",
        zone = zone ~= "" and zone or nil,
        installation = installation ~= "" and installation or nil,
        state_dir = state_dir ~= "" and state_dir or nil,
        allow = list("STEELYARD_STATUS_ALLOW"),
        upstreams = name and { [name] = { bootstrap = list("STEELYARD_BOOTSTRAP") } } or nil,
    }
end


return _M
