--- Peer cells: the cell of a server's address in the workers' shared memory.
--
-- A cell has a server's peer stats, latency histogram and counts. This module keeps a row for each, in memory shared
-- by the workers:
--
--   row 0       the highest cell ever given out
--   row c       when a worker last kept the cell, and its owner's address
--
-- A worker keeps the cells of all its servers, and those with counts, every KEEP_EVERY_S. A cell not kept for
-- FREE_AFTER_S is free. So no worker needs to know the servers of the others, and a killed worker holds nothing. The
-- lowest free cell is given out first, to touch little memory. If none is free, a server gets NONE, for which nothing
-- is counted.
--
-- `take` changes rows that other workers take, too: the caller holds a lock. A container that was paused may have
-- stopped all workers for as long as cells may be idle. So a worker that was stopped for that long first keeps all
-- cells with an owner. Pure: the memory and the time are passed in.

local ffi = require "ffi"

ffi.cdef "int memcmp(const void *a, const void *b, size_t length);"

local ROW = ffi.typeof("struct { double kept_at; char address[56]; } *")
local ROW_BYTES = 64

-- An IPv6 address with a port has at most 47 bytes, or 53 if it ends in an IPv4 address.
local MAX_ADDRESS = 55

local _M = { NONE = 0, KEEP_EVERY_S = 5, FREE_AFTER_S = 30 }
local mt = { __index = _M }


--- Return the bytes of memory for the rows.
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


--- Return the highest cell ever given out; 0 if there is none.
function _M:highest()
    return self.rows[0].kept_at
end


--- Return the owner's address of a cell, or of its last owner; "" if it never had one.
function _M:owner(cell)
    return ffi.string(self.rows[cell].address)
end


--- Whether a cell is, or last was, that of an address. Unlike owner(), it makes no text.
function _M:is_owner(cell, address)
    local length = #address
    return cell ~= _M.NONE and length <= MAX_ADDRESS
           and ffi.C.memcmp(self.rows[cell].address, address, length + 1) == 0 -- with its zero byte
end


local function is_free(self, cell, now)
    local kept_at = self.rows[cell].kept_at
    return kept_at == 0 or now - kept_at > _M.FREE_AFTER_S
end


--- Note that this worker uses a cell.
function _M:keep(cell, now)
    if cell ~= _M.NONE then
        self.rows[cell].kept_at = now
    end
end


--- Keep all cells with an owner if this worker was stopped for long: the others may have been, too.
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


--- Whether this worker has to keep its cells again; notes that it does.
function _M:due(now)
    if self.round_at and now - self.round_at < _M.KEEP_EVERY_S then
        return false
    end
    after_a_pause(self, now)
    self.round_at = now
    return true
end


--- Return the lowest free cell, or NONE. Calls with the same `now` continue behind the last result.
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


--- Return the cell of an address, and whether it is newly given out: its content is then another server's.
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
    ffi.copy(rows[cell].address, string.sub(address, 1, MAX_ADDRESS)) -- and its zero byte
    rows[cell].kept_at = now
    rows[0].kept_at = math.max(rows[0].kept_at, cell)
    return cell, true
end


--- Return how many cells are in use.
function _M:in_use(now)
    local n = 0
    for cell = 1, self:highest() do
        n = n + (is_free(self, cell, now) and 0 or 1)
    end
    return n
end


return _M
