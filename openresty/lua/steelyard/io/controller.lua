--- Ask a controller's API for a weight table: the source beside Memcached.
--
-- For timers only. World failure is nil, err.

local away = require "steelyard.io.away"
local http = require "steelyard.io.http"
local signed = require "steelyard.core.signed"
local wire = require "steelyard.core.wire"

-- The answer lies in the controller's memory; a megabyte takes some 10 ms.
local TIMEOUT_MS = 500

local SIGNATURE = "steelyard-signature"

-- What a status other than 200 and 304 means here.
local MEANINGS = {
    [403] = "the option `controller_token` of init_worker is a token that may not read",
    [404] = "it has no such upstream",
    [503] = "it has no table yet, or no leader",
}

local _M = {}


local function why(status, token)
    local meaning = MEANINGS[status]
    if status == 401 then
        meaning = token and "the option `controller_token` of init_worker is none of its tokens"
                  or "it wants a token: set the option `controller_token` of init_worker"
    end
    return "answered " .. tostring(status) .. (meaning and " (" .. meaning .. ")" or "")
end


local function ask(server, upstream, served, token)
    local answer, err = http.get({
        host = server.host, port = server.port,
        path = server.path_prefix .. "/v1/upstreams/" .. upstream .. "/weights",
        timeout_ms = TIMEOUT_MS, max_bytes = wire.MAX_BYTES,
        headers = {
            ["If-None-Match"] = served and string.format('"%.0f.%.0f"', served.term, served.generation),
            ["Authorization"] = token and "Bearer " .. token,
        },
    })
    if not answer then
        return nil, err
    end
    if answer.status == 304 then
        return ""
    end
    if answer.status ~= 200 then
        return nil, why(answer.status, token)
    end
    local signature = answer.headers[SIGNATURE]
    return signature and signed.value(signature, answer.body) or answer.body
end


--- The value as Memcached would hold it, signature and all; "" where the
-- controller's table is the one that is `served` (term, generation; or nil).
-- @param token what the controller wants of readers, or nil
function _M.table(server, upstream, served, token)
    return away.attempt("controller " .. server.name, function()
        return ask(server, upstream, served, token)
    end)
end


return _M
