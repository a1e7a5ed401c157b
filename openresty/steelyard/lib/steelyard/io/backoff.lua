--- Backoff: a server that has just cost a timeout is not asked again for BACKOFF_S.
--
-- Only what was slow is remembered. A server that refuses at once costs nothing,
-- and is found again at once. Each worker remembers for itself, so a dead server
-- costs one timeout per worker and BACKOFF_S.

local BACKOFF_S = 3

-- Much longer than a refusal takes, shorter than any timeout of ours.
local SLOW_S = 0.1

local _M = {}

local failed = {} -- name -> { till, why }


--- Do work() -> value, err unless the server of that name has just cost a timeout.
function _M.attempt(name, work)
    local began = ngx.now()
    local known = failed[name]
    local left_s = known and known.till - began or 0
    if left_s > 0 and left_s <= BACKOFF_S then -- more: the clock was set back
        return nil, known.why .. " (asked again in " .. math.ceil(left_s) .. " s)"
    end
    local value, err = work()
    local now = ngx.now()
    local lost = value == nil and math.abs(now - began) >= SLOW_S
    failed[name] = lost and { till = now + BACKOFF_S, why = tostring(err) } or nil
    return value, err
end


return _M
