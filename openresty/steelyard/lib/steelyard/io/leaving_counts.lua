--- Counts of leaving workers, for workers that keep copies of the counters (core/cell_totals).
--
-- After a reload, the workers before it have a memory of their own, and go on counting in the shared dict until their
-- last request ends. Sessions may last for hours. So they say for which servers they have counted, and only these
-- copies are read again.
--
--   left_counts       how many times leaving workers have counted
--   left_counts/<n>   the addresses of that time, one a line
--   left_at           when one of them last flushed
--   left_noted        the same, unless a worker of an earlier version did: it counts for any address

local clock = require "steelyard.io.clock"
local peer_cells = require "steelyard.core.peer_cells"

local LEFT_COUNTS, LEFT_NOTED = "left_counts", "left_noted"

-- Copies are outdated one by one for this many addresses, and this many times that leaving workers counted. Otherwise
-- all are. Addresses are read within a second or two; after a minute the copies are read again anyway.
local MOST_ADDRESSES, MOST_COUNTS, ADDRESSES_TTL_S = 100, 100, 60

local _M = { MOST_ADDRESSES = MOST_ADDRESSES }


--- Tell the workers of other memories that this one has counted, and for which servers. If the dict has no room for
-- that, it looks like an earlier version's worker.
-- @param ttl_s how long the times of a flush are kept
function _M.note(dict, addresses, ttl_s)
    local number = #addresses == 0 or dict:incr(LEFT_COUNTS, 1, 0)
    if #addresses > 0 and number and #addresses <= MOST_ADDRESSES then
        dict:set(LEFT_COUNTS .. "/" .. number, table.concat(addresses, "\n"), ADDRESSES_TTL_S)
    end
    local now = clock.monotonic()
    if number then
        dict:set(LEFT_NOTED, now, ttl_s)
    end
    dict:set("left_at", now, ttl_s)
end


--- Outdate the copies of counters that leaving workers have added to.
-- @param totals core/cell_totals
function _M.follow(dict, totals, now)
    local number, left_at = dict:get(LEFT_COUNTS) or 0, dict:get("left_at") or 0
    if left_at == (dict:get(LEFT_NOTED) or 0) then
        left_at = 0
    end
    local known, known_at = totals:known()
    if number == known and left_at == known_at then
        return
    end
    local is_known = left_at == known_at and number > known and number - known <= MOST_COUNTS
    for n = known + 1, is_known and number or known do
        local addresses = dict:get(LEFT_COUNTS .. "/" .. n)
        is_known = is_known and addresses ~= nil
        for address in string.gmatch(addresses or "", "[^\n]+") do
            totals:outdate(dict:get("cell/" .. address) or peer_cells.NONE, address)
        end
    end
    if not is_known then
        totals:outdate_all(now)
    end
    totals:know(number, left_at)
end


return _M
