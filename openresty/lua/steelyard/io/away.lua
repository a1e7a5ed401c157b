--- Servers that are away: whoever has just cost a timeout is not asked for a while.
--
-- Only what was slow is remembered. A server that refuses at once costs nothing,
-- and is found again at once. Each worker remembers for itself, so a dead server
-- costs one timeout per worker and AWAY_S.

local AWAY_S = 3

-- Much longer than a refusal takes, shorter than any timeout of ours.
local SLOW_S = 0.1

local _M = {}

local away = {} -- name -> { till, why }


--- Do work() -> value, err unless the server of that name is away.
function _M.attempt(name, work)
    local began = ngx.now()
    local known = away[name]
    local left_s = known and known.till - began or 0
    if left_s > 0 and left_s <= AWAY_S then -- more: the clock was set back
        return nil, known.why .. " (asked again in " .. math.ceil(left_s) .. " s)"
    end
    local value, err = work()
    local now = ngx.now()
    local lost = value == nil and math.abs(now - began) >= SLOW_S
    away[name] = lost and { till = now + AWAY_S, why = tostring(err) } or nil
    return value, err
end


return _M
