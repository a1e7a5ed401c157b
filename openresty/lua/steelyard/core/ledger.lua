--- The ledger of one worker: requests that are open, and what became of them.
--
-- Open requests are kept under a key of the caller's (the request's pointer)
-- and not in the request's context, because nginx wipes that on an internal
-- redirect (error_page), before the log phase. A key that was never closed (a
-- location without the log line) is taken over by the next request that gets
-- it, and the peer it held is released then.
--
-- Counts are kept per *address*, in its cell's row: a server in two upstreams
-- does the work of both. `drain` hands out what has changed since the last time;
-- the board shows at once what pickers want to know. Pure.

local ffi = require "ffi"

-- Drains (a quarter second apart) without a request after which an address is forgotten.
local FORGET_AFTER = 40

-- Addresses between two breaths: 0.1 ms, with three counts to hand out for each.
local ROWS = 100

local function no_pause() end

-- Doubles of a row, which is a cache line.
local PICKS, COMPLETED, FAILED, LATENCY_MS, IN_FLIGHT, IDLE, LISTED = 0, 1, 2, 3, 4, 5, 6
local LINE = 8

local _M = {}
local mt = { __index = _M }


--- How much memory the counts need.
function _M.bytes(cells)
    return cells * LINE * 8
end


--- Make an empty ledger that writes to a board.
-- @param memory zeroed, of bytes(board.cells); left out, it is taken here
function _M.new(board, memory)
    memory = memory or ffi.new("uint8_t[?]", _M.bytes(board.cells))
    return setmetatable({
        board = board, open = {}, spare = {},
        memory = memory, -- so that it is not collected
        counts = ffi.cast("double *", memory), -- a row a cell
        cells = {}, addresses = {}, -- the cells that have something to tell, and whose they are
    }, mt)
end


--- Where the counts of a server begin.
local function row_of(self, cell, address)
    local row = cell * LINE
    if self.counts[row + LISTED] == 0 then
        self.counts[row + LISTED] = 1
        self.cells[#self.cells + 1] = cell
        self.addresses[cell] = address
    end
    return row
end


local function release(self, entry)
    local cell = entry.held
    if cell then
        local at = cell * LINE + IN_FLIGHT
        self.counts[at] = self.counts[at] - 1
        self.board:lower(cell)
        entry.held = nil
    end
end


--- The entry of an open request: its tries [1..n], the first of the running
-- pass `from`, the peer `reserved` for the next pass, and `why` there was no
-- peer. Opens one if need be.
-- @param started any value that two requests of one key do not share
function _M:entry(key, started)
    local entry = self.open[key]
    if entry then
        if entry.started == started then
            return entry
        end
        self:close(key)
    end
    local spare = self.spare
    local last = #spare
    entry = spare[last]
    if entry then
        spare[last] = nil
    else
        entry = { n = 0, from = 1, started = 0 }
    end
    entry.started = started
    self.open[key] = entry
    return entry
end


--- Note that the request now goes to `peer`; the try before it is over.
function _M:picked(entry, peer)
    release(self, entry)
    local n, cell = entry.n + 1, peer.cell
    entry.n, entry[n] = n, peer
    local counts, row = self.counts, row_of(self, cell, peer.address)
    counts[row + PICKS] = counts[row + PICKS] + 1
    counts[row + IN_FLIGHT] = counts[row + IN_FLIGHT] + 1
    self.board:raise(cell)
    entry.held = cell
end


--- Note that no peer was found; the try before it is over.
function _M:none(entry, why)
    release(self, entry)
    entry.why = why
end


--- Count what became of one try at a server.
function _M:count(cell, address, verdict, latency_ms)
    local counts, row = self.counts, row_of(self, cell, address)
    if verdict == "completed" then
        counts[row + COMPLETED] = counts[row + COMPLETED] + 1
        counts[row + LATENCY_MS] = counts[row + LATENCY_MS] + latency_ms
    elseif verdict == "failed" then
        counts[row + FAILED] = counts[row + FAILED] + 1
    end
end


--- Count what became of one try at a peer, and show it on the board.
function _M:tried(peer, verdict, latency_ms, now)
    self:count(peer.cell, peer.address, verdict, latency_ms)
    if verdict ~= "aborted" then
        self.board:observe(peer.cell, latency_ms, verdict == "completed", now)
    end
end


--- Close a request; its entry must not be used any more.
function _M:close(key)
    local entry = self.open[key]
    if not entry then
        return
    end
    self.open[key] = nil
    release(self, entry)
    for i = 1, entry.n do
        entry[i] = nil
    end
    entry.n, entry.from, entry.why, entry.upstream, entry.reserved = 0, 1, nil, nil, nil
    self.spare[#self.spare + 1] = entry
end


--- Take a cell off the list; the last one takes its place.
local function unlist(self, i)
    local cells = self.cells
    local cell = cells[i]
    self.counts[cell * LINE + LISTED], self.counts[cell * LINE + IDLE] = 0, 0
    self.addresses[cell] = nil
    cells[i] = cells[#cells]
    cells[#cells] = nil
end


--- Call sink(address, picks, completed, failed, latency_ms) for what was counted
-- since the last drain, and return address -> requests in flight. Servers that
-- come while it breathes are left for the next drain; one at a time, please.
function _M:drain(sink, breathe)
    local in_flight, counts = {}, self.counts
    breathe = breathe or no_pause
    for i = #self.cells, 1, -1 do
        local cell = self.cells[i]
        local row, address = cell * LINE, self.addresses[cell]
        local picks, completed, failed = counts[row + PICKS], counts[row + COMPLETED], counts[row + FAILED]
        if counts[row + IN_FLIGHT] > 0 then
            in_flight[address] = counts[row + IN_FLIGHT]
        end
        if picks + completed + failed > 0 then
            local latency_ms = counts[row + LATENCY_MS]
            for field = PICKS, LATENCY_MS do
                counts[row + field] = 0
            end
            counts[row + IDLE] = 0
            sink(address, picks, completed, failed, latency_ms)
        elseif counts[row + IN_FLIGHT] == 0 then
            counts[row + IDLE] = counts[row + IDLE] + 1
            if counts[row + IDLE] > FORGET_AFTER then
                unlist(self, i)
            end
        end
        if i % ROWS == 0 then
            breathe()
        end
    end
    return in_flight
end


return _M
