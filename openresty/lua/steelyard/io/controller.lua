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

local _M = {}


local function ask(server, upstream, served)
    local answer, err = http.get({
        host = server.host, port = server.port,
        path = server.path_prefix .. "/v1/upstreams/" .. upstream .. "/weights",
        timeout_ms = TIMEOUT_MS, max_bytes = wire.MAX_BYTES,
        headers = served and {
            ["If-None-Match"] = string.format('"%.0f.%.0f"', served.term, served.generation),
        },
    })
    if not answer then
        return nil, err
    end
    if answer.status == 304 then
        return ""
    end
    if answer.status ~= 200 then
        return nil, "answered " .. tostring(answer.status)
    end
    local signature = answer.headers[SIGNATURE]
    return signature and signed.value(signature, answer.body) or answer.body
end


--- The value as Memcached would hold it, signature and all; "" where the
-- controller's table is the one that is `served` (term, generation; or nil).
function _M.table(server, upstream, served)
    return away.attempt("controller " .. server.name, function()
        return ask(server, upstream, served)
    end)
end


return _M
