--- Cell totals: a copy of each server's counters in the memory that nginx's workers share.
--
-- The counters are in the shared dict (io/shared_counters), where they outlive workers and reloads. To read one there
-- takes the text of its key and the dict's lock. A traffic report and ejection need those of all servers each second,
-- although few may have had a request. So each cell has a copy, which is read in nanoseconds:
--
--   row 0       how many counts by workers of another memory are known, and since when all copies are outdated
--   row c       the totals of the cell's server, and when they were read from the dict
--
-- A worker that adds to a counter notes the sum. Totals only grow, so the larger of two sums is the later one. A copy
-- is read from the dict again after an age of FRESH_S to twice that, by cell, so that few are read at once. It is also
-- read again if a worker of another memory has counted: after a reload, the earlier workers have theirs.
--
-- There is no lock. Two workers that write one total within the same nanoseconds, or one that is killed before it
-- notes, leave a copy behind its counter, until the next note or reading. Nothing is lost: a report is the difference
-- from the totals in the last one. Pure: the memory and the time are passed in.

local ffi = require "ffi"

local max = math.max

-- Doubles of a row, which is a cache line.
local READ_AT, LINE = 6, 8

-- Doubles of row 0.
local OUTDATED_AT, KNOWN = 0, 1

-- With 2,000 servers, 400 of 12,000 counters a second are read again.
local FRESH_S = 20

local _M = { FRESH_S = FRESH_S }
local mt = { __index = _M }


-- In the order of a row, and of the arguments of open_requests:take_all().
_M.FIELDS = { "picks", "completed", "failed", "latency_ms", "untimed", "cost" }


--- Return the bytes of memory for the copies.
function _M.bytes(cells)
    return (cells + 1) * LINE * 8
end


--- Open the copies in zeroed memory of bytes(cells).
-- @param cells core/peer_cells
function _M.new(memory, cells)
    return setmetatable({
        memory = memory, -- so that it is not collected
        doubles = ffi.cast("double *", memory), -- read through row()
        cells = cells,
    }, mt)
end


--- Return the index in `doubles` of the first total of a server; nil if its copy does not count any more, or the cell
-- is not its own.
function _M:row(cell, address, now)
    local doubles, at = self.doubles, cell * LINE
    local read_at = doubles[at + READ_AT]
    if read_at > 0 and read_at >= doubles[OUTDATED_AT] and now - read_at < FRESH_S + cell % FRESH_S
       and self.cells:is_owner(cell, address) then
        return at
    end
end


--- Note the sum of a counter.
-- @param field its index in FIELDS
function _M:note(cell, address, field, sum)
    if self.cells:is_owner(cell, address) then
        local at = cell * LINE + field - 1
        self.doubles[at] = max(self.doubles[at], sum)
    end
end


--- Take the counters of a server as they are in the dict. Return the index as row() does; nil if the cell is not its
-- own.
-- @param get function(address, field): a counter, by its name
-- @param now before the first of them is read
function _M:read(cell, address, get, now)
    if not self.cells:is_owner(cell, address) then
        return nil
    end
    local doubles, at = self.doubles, cell * LINE
    for field = 1, #_M.FIELDS do
        local place = at + field - 1
        local before = doubles[place]
        local count = get(address, _M.FIELDS[field])
        -- Another worker may have noted a later sum meanwhile. A report may have that one already, and would take a
        -- lesser total for a server that began anew.
        doubles[place] = doubles[place] == before and count or max(doubles[place], count)
    end
    doubles[at + READ_AT] = now
    return at
end


--- Outdate the copy of a server.
function _M:outdate(cell, address)
    if self.cells:is_owner(cell, address) then
        self.doubles[cell * LINE + READ_AT] = 0
    end
end


--- Outdate all copies.
function _M:outdate_all(now)
    self.doubles[OUTDATED_AT] = now
end


--- Return how many counts by workers of another memory are known; 0 at first.
function _M:known()
    return self.doubles[KNOWN]
end


--- Note their number. Outdate the copies first: another worker may look in between.
function _M:know(number)
    self.doubles[KNOWN] = number
end


--- Clear a cell's copy: its server or its counters are forgotten.
function _M:forget(cell)
    for at = cell * LINE, cell * LINE + READ_AT do
        self.doubles[at] = 0
    end
end


return _M
