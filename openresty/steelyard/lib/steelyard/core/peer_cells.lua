--- Peer cells: which cell of the workers' shared memory a server's address has.
--
-- A cell is where a server's peer stats, latency histogram and counts are. Here is
-- a row for each, in memory that the workers share:
--
--   row 0       the highest cell that was ever given out
--   row c       when a worker last kept the cell, and whose it is
--
-- A worker keeps the cells of all that it serves, or has counts of, every
-- KEEP_EVERY_S. One that nobody has kept for FREE_AFTER_S is free, whoever had it
-- last: no worker need know what the others serve, and one that is killed holds
-- nothing. The lowest free cell is given out first, so that little memory is ever
-- touched. Where none is free a server gets NONE, for which nothing is counted.
--
-- `take` changes rows that other workers take too: the caller holds a lock. A worker
-- that was stopped for as long as cells may lie idle (all of them may have been, in a
-- container that was paused) first keeps all cells that have an owner.
-- Pure: the memory and the time are passed in.

local ffi = require "ffi"

local ROW = ffi.typeof("struct { double kept_at; char address[56]; } *")
local ROW_BYTES = 64

-- The longest is that of an IPv6 address with a port: 47, or 53 when it ends in an IPv4 address.
local LONGEST = 55

local _M = { NONE = 0, KEEP_EVERY_S = 5, FREE_AFTER_S = 30 }
local mt = { __index = _M }


--- How much memory the rows need.
function _M.bytes(cells)
    return (cells + 1) * ROW_BYTES
end


--- Open the rows in zeroed memory of bytes(cells); cells are numbered from 1.
-- @param memory left out: a worker's own
function _M.new(memory, cells)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(cells))
    return setmetatable({
        memory = memory, -- so that it is not collected
        rows = ffi.cast(ROW, memory), cells = cells,
        round_at = nil, searched_at = nil, searched = 0,
    }, mt)
end


--- The highest cell that was ever given out; 0 when none was.
function _M:highest()
    return self.rows[0].kept_at
end


--- Whose a cell is, or was last; "" when it is nobody's.
function _M:owner(cell)
    return ffi.string(self.rows[cell].address)
end


local function is_free(self, cell, now)
    local kept_at = self.rows[cell].kept_at
    return kept_at == 0 or now - kept_at > _M.FREE_AFTER_S
end


--- Say that this worker uses a cell.
function _M:keep(cell, now)
    if cell ~= _M.NONE then
        self.rows[cell].kept_at = now
    end
end


--- Keep all cells that have an owner if this worker was away for long: the others may have been, too.
local function after_a_pause(self, now)
    if self.round_at and now - self.round_at > _M.FREE_AFTER_S / 2 then
        for cell = 1, self:highest() do
            if self.rows[cell].kept_at > 0 then
                self.rows[cell].kept_at = now
            end
        end
        self.round_at = now
    end
end


--- Whether this worker is to keep its cells again; notes that it does.
function _M:due(now)
    if self.round_at and now - self.round_at < _M.KEEP_EVERY_S then
        return false
    end
    after_a_pause(self, now)
    self.round_at = now
    return true
end


--- The lowest free cell, or NONE. Calls with the same `now` go on where the last one found one.
local function lowest_free(self, now)
    if self.searched_at ~= now then
        self.searched_at, self.searched = now, 0
    end
    for cell = self.searched + 1, self.cells do
        if is_free(self, cell, now) then
            self.searched = cell
            return cell
        end
    end
    self.searched = self.cells
    return _M.NONE
end


--- Return the cell of an address, and whether it is newly given out: then what it holds is another's.
-- @param last the cell that the address is said to have had, or nil
function _M:take(address, now, last)
    after_a_pause(self, now)
    local rows = self.rows
    local known = last ~= nil and last ~= _M.NONE and last <= self.cells
    if known and not is_free(self, last, now) and self:owner(last) == address then
        rows[last].kept_at = now
        return last, false
    end
    local cell = known and is_free(self, last, now) and last or lowest_free(self, now)
    if cell == _M.NONE then
        return cell, false
    end
    ffi.copy(rows[cell].address, string.sub(address, 1, LONGEST)) -- and its zero byte
    rows[cell].kept_at = now
    rows[0].kept_at = math.max(rows[0].kept_at, cell)
    return cell, true
end


--- How many cells are in use.
function _M:in_use(now)
    local n = 0
    for cell = 1, self:highest() do
        n = n + (is_free(self, cell, now) and 0 or 1)
    end
    return n
end


return _M
