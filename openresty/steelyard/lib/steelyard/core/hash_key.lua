--- Hash keys: the nginx variable for a hash picker's key. Pure.
--
-- A hash key is `address`, `uri`, `header:NAME`, `cookie:NAME` or `argument:NAME`, in nginx.conf and in a weight table
-- alike.

-- nginx finds these variables by their prefix, whatever the name.
local KINDS = { address = "remote_addr", uri = "request_uri" }
local PREFIXES = { header = "http_", cookie = "cookie_", argument = "arg_" }

local MAX_NAME = 64

local _M = { REMEDY = "it may be address, uri, header:NAME, cookie:NAME or argument:NAME" }


--- Return nginx's variable for a hash key; nil if the key is malformed.
function _M.variable(key)
    if type(key) ~= "string" then
        return nil
    elseif KINDS[key] then
        return KINDS[key]
    end
    local kind, name = string.match(key, "^(%l+):([%w_-]+)$")
    if not kind or not PREFIXES[kind] or #name > MAX_NAME then
        return nil
    end
    if kind == "header" then
        name = string.gsub(string.lower(name), "-", "_")
    end
    return PREFIXES[kind] .. name
end


return _M
