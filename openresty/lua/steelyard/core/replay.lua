--- A weight table of long ago, put back for an nginx that has nothing to compare it with.
--
-- Where a table is served, (term, generation) tells what is older, and no clock is
-- asked. An nginx that starts with nothing would take any signed table; but one
-- lies in Memcached for a day at the most (TABLE_TTL_S in the controller's loop),
-- and a controller's own answer is a tick old. So one that was issued before that
-- is a recording, or one of the two clocks is wrong. Pure.

-- A day, and an hour for the clocks: that is a time zone set wrong by one.
local OLDEST_S = 25 * 3600

local _M = {}


--- Why the first table of an upstream is refused: { reason, detail }; nil when it is not.
-- @param now seconds since 1970, by this machine's clock
function _M.of_first(first, now)
    local age_s = now - first.issued_at_ms / 1000
    if age_s <= OLDEST_S then
        return nil
    end
    return {
        reason = "replayed",
        detail = string.format("it was issued %.0f hours ago by this machine's clock, and no table is kept for more "
                               .. "than 24: an old one is back, or a clock is wrong, here or at the controller: "
                               .. "set it", age_s / 3600),
    }
end


return _M
