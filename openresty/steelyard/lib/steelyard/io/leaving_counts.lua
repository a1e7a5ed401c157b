--- Counts of leaving workers, for workers that keep copies of the counters (core/cell_totals).
--
-- After a reload, the workers before it have a memory of their own, and go on counting in the shared dict until their
-- last request ends. Sessions may last for hours. So they say for which servers they have counted, and only these
-- copies are read again.
--
--   left_counts       how many times leaving workers have counted
--   left_counts/<n>   the addresses of that time, one a line
--
-- If addresses are missing, all copies are read again: there were too many, the dict had no room for them, or the last
-- look was over a minute ago.

local peer_cells = require "steelyard.core.peer_cells"

local LEFT_COUNTS = "left_counts"

-- Addresses are read within a second or two; after a minute the copies are read again anyway.
local ADDRESSES_TTL_S = 60

local _M = { MOST_ADDRESSES = 100 }


--- Make the number of times. A number that is there can be raised when the dict is full.
function _M.begin(dict)
    dict:incr(LEFT_COUNTS, 0, 0)
end


--- Tell the workers of other memories for which servers this one has counted.
function _M.note(dict, addresses)
    local number = #addresses > 0 and dict:incr(LEFT_COUNTS, 1, 0)
    if number and #addresses <= _M.MOST_ADDRESSES then
        dict:set(LEFT_COUNTS .. "/" .. number, table.concat(addresses, "\n"), ADDRESSES_TTL_S)
    end
end


--- Outdate the copies of counters that leaving workers have added to.
-- @param totals core/cell_totals
function _M.follow(dict, totals, now)
    local number, known = dict:get(LEFT_COUNTS) or 0, totals:known()
    local is_known = number >= known -- else the dict is a new one
    for n = known + 1, number do
        local addresses = dict:get(LEFT_COUNTS .. "/" .. n)
        if not addresses then
            is_known = false
            break
        end
        for address in string.gmatch(addresses, "[^\n]+") do
            totals:outdate(dict:get("cell/" .. address) or peer_cells.NONE, address)
        end
    end
    if not is_known then
        totals:outdate_all(now)
    end
    if number ~= known then
        totals:know(number)
    end
end


return _M
