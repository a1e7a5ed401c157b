--- The open requests of one worker, and the outcomes of those that ended.
--
-- Open requests are kept under a key of the caller (the request's pointer), not in the request's context. nginx wipes
-- the context on an internal redirect (error_page), before the log phase.
--
-- A location with a log_by_lua of its own never closes its requests. They are found in three ways, then closed and
-- counted. Another request gets the same key; or the request's end is noted in its entry (watch_end); or its witness
-- is gone, a table that nginx keeps for it alone.
--
-- Counts are kept per *address*, in its cell's row: a server in two upstreams does the work of both. The method
-- take_all() hands out the changes since its last call; the peer stats show at once what pickers need. A server
-- without a cell is not counted. Nor is one that left all tables during a request and lost its cell: the count would
-- go to another server. Pure.

local ffi = require "ffi"
local latency_histogram = require "steelyard.core.latency_histogram"
local no_pause = require("resty.vnswrr").no_pause
local request_entry = require "steelyard.core.request_entry"

-- Calls of take_all() without a request after which an address is forgotten: 8 s, or 40 s with many servers.
local FORGET_AFTER = 40

-- Addresses between two calls of breathe(): 0.02 ms, with three counts to hand out for each.
local ADDRESSES_PER_BREATH = 20

-- Doubles of a row, which is a cache line.
local PICKS, COMPLETED, FAILED, LATENCY_MS, UNTIMED, COST, IN_FLIGHT, IDLE = 0, 1, 2, 3, 4, 5, 6, 7
local LINE = 8

local NO_PASSES = {}

local _M = {}
local mt = { __index = _M }


--- Return the bytes of memory for the counts.
function _M.bytes(cells)
    return cells * LINE * 8
end


--- Make an empty list of open requests, which keeps peer stats up to date.
-- @param options memory: zeroed, of bytes(stats.cells); histograms: core/latency_histogram. Left out, both are made
--        here. cells: core/peer_cells; left out, every cell is its peer's
function _M.new(stats, options)
    options = options or {}
    local memory = options.memory or ffi.new("uint8_t[?]", _M.bytes(stats.cells))
    return setmetatable({
        stats = stats, owners = options.cells, open = {}, spare = {},
        histograms = options.histograms or latency_histogram.new(nil, stats.cells),
        memory = memory, -- so that it is not collected
        counts = ffi.cast("double *", memory), -- one row per cell
        witnesses = setmetatable({}, { __mode = "v" }), -- entry -> its witness, while that is there
        unlogged = {}, -- upstream -> requests that ended without log()
        unknown_probes = {}, -- { upstream, peer } of those that were a half-open peer's probe
        cells = {}, addresses = {}, -- the listed cells, which have counts to hand out, and their owners
        has_failures = false, -- whether a failure is among the counts to hand out
    }, mt)
end


--- List a cell; return false if it is not the server's.
local function list(self, cell, address)
    if self.owners and self.owners:owner(cell) ~= address then
        return false
    end
    if not self.addresses[cell] then
        self.cells[#self.cells + 1] = cell
    end
    self.addresses[cell] = address
    return true
end


--- Return the index of a server's first count, and list the server if it is not; nil if the cell is not its own.
local function row_of(self, cell, address)
    if self.addresses[cell] ~= address and not list(self, cell, address) then
        return nil
    end
    return cell * LINE
end


--- Let go of the server of the running try: it has no more work for the request.
function _M:release(entry)
    local cell = entry.held_cell
    if cell then
        local at = cell * LINE + IN_FLIGHT
        self.counts[at] = self.counts[at] - 1
        self.stats:lower(cell)
        if entry.held_extra then
            self.stats:weigh(cell, -entry.held_extra)
            entry.held_extra = nil
        end
        entry.held_cell = nil
    end
end


local release, clear = _M.release, request_entry.clear


local function new_entry()
    local entry = request_entry.new()
    entry.ended = ffi.new("long[1]", 1)
    return entry
end


--- Open a request that find() does not find; return its entry.
function _M:begin(key, started)
    local spare = self.spare
    local last = #spare
    local entry = spare[last]
    if entry then
        spare[last] = nil
    else
        entry = new_entry()
    end
    entry.started = started
    self.open[key] = entry
    return entry
end


--- Return the entry of an open request (core/request_entry), and open one if need be.
-- @param started any value that differs between two requests with the same key
-- @return the entry, and whether it was opened
function _M:entry(key, started)
    local entry = self:find(key, started)
    if entry then
        return entry, false
    end
    return self:begin(key, started), true
end


--- Return the entry from an earlier phase of the same request, or nil.
function _M:find(key, started)
    local entry = self.open[key]
    if entry and entry.started ~= started then
        self:abandon(key)
        return nil
    end
    return entry
end


--- Have an open request be found if it ends without being closed. Return the word to write a value other than 0 to at
-- its end. It belongs to the entry, and so lasts as long as the worker.
function _M.watch_end(entry)
    entry.watched, entry.ended[0] = true, 0
    return entry.ended
end


--- The same, if nothing notes its end.
-- @param witness a table that nothing else references for longer than the request lasts
function _M:watch(entry, witness)
    entry.watched = true
    self.witnesses[entry] = witness
end


--- Note that a try goes to `peer`, without holding it in flight.
function _M:sent(entry, peer)
    local tries, counts, row = entry.tries, self.counts, row_of(self, peer.cell, peer.address)
    local n = tries.n + 1
    tries.n, tries[n] = n, peer
    if row then
        counts[row + PICKS] = counts[row + PICKS] + 1
    end
end


local sent = _M.sent


--- Note that the request now goes to `peer`; its previous try is over.
function _M:picked(entry, peer)
    if entry.held_cell then
        release(self, entry)
    end
    sent(self, entry, peer)
    local cell, counts, stats = peer.cell, self.counts, self.stats
    local at = cell * LINE + IN_FLIGHT
    counts[at] = counts[at] + 1
    local weight = entry.price.weight
    if stats.by_level then
        local tries = entry.tries
        tries.in_flight = tries.in_flight or {}
        tries.in_flight[tries.n] = (weight and stats.priced or stats):in_flight(cell)
    end
    stats:raise(cell)
    if weight then
        entry.held_extra = weight - 1
        stats:weigh(cell, entry.held_extra)
    end
    entry.held_cell = cell
end


--- Note that no peer was found; the previous try is over.
function _M:none(entry, why)
    release(self, entry)
    entry.failure.why = why
end


--- Count the outcome of one try at a server; return whether it has the cell.
-- @param latency_ms nil if it says nothing about the server's speed
-- @param cost       of the request; nil if there is none
function _M:count(cell, address, verdict, latency_ms, cost)
    local counts, row = self.counts, row_of(self, cell, address)
    if not row then
        return false
    end
    if verdict == "completed" then
        counts[row + COMPLETED] = counts[row + COMPLETED] + 1
        if cost then
            counts[row + COST] = counts[row + COST] + cost
        end
        if latency_ms then
            counts[row + LATENCY_MS] = counts[row + LATENCY_MS] + latency_ms
            self.histograms:count(cell, latency_ms)
        else
            counts[row + UNTIMED] = counts[row + UNTIMED] + 1
        end
    elseif verdict == "failed" then
        counts[row + FAILED] = counts[row + FAILED] + 1
        self.has_failures = true
    end
    return true
end


--- Count the outcome of one try at a peer, in the peer stats too.
-- @param in_flight requests in flight there when it came; nil if not read
-- @param cost      of the request; nil if there is none
function _M:tried(peer, verdict, latency_ms, now, in_flight, cost)
    local counted = self:count(peer.cell, peer.address, verdict, latency_ms, cost)
    if counted and verdict ~= "aborted" then
        self.stats:observe(peer.cell, latency_ms, verdict == "completed", now, in_flight)
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
    local queue = entry.place.queue
    if queue then
        queue:leave(entry)
    end
    clear(entry)
    self.witnesses[entry] = nil
    self.spare[#self.spare + 1] = entry
end


--- The number of the try that probed a half-open peer and may have been answered; nil if there is none. A try before
-- another one of its pass has failed.
local function probe_of(entry)
    local tries = entry.tries
    local earlier = tries.earlier or NO_PASSES
    for i = tries.n, 1, -1 do
        if tries[i] == entry.probe and (i == tries.n or earlier[i] ~= earlier[i + 1]) then
            return i
        end
    end
end


--- Close a request that has ended without being closed, and count it.
function _M:abandon(key)
    local entry = self.open[key]
    local name = entry.upstream
    if name then
        self.unlogged[name] = (self.unlogged[name] or 0) + 1
        local i = entry.probe and probe_of(entry)
        if i then
            self.unknown_probes[#self.unknown_probes + 1] = {
                upstream = request_entry.upstream_of(entry, i), peer = entry.probe,
            }
        end
    end
    self:close(key)
end


--- Close the requests that have ended, and let go of the servers that have no more work for open ones. A witness
-- disappears some time after its request, with the garbage.
-- @param started left out, or a time of day
-- @param is_over_at_server function(entry, key) for requests in flight; left out: they are at their server to the end
-- @param now the time of day; a request that began later counts as old, because the clock was set back
-- @return whether others with a witness that began before `started` are open, and how many were in flight and are not
function _M:close_ended(started, is_over_at_server, now)
    local others, closed = false, 0
    for key, entry in pairs(self.open) do
        if entry.watched then
            if self.witnesses[entry] then
                others = others or started ~= nil and (entry.started < started or now ~= nil and entry.started > now)
            elseif entry.ended[0] ~= 0 then
                self:abandon(key)
                closed = closed + 1
            elseif is_over_at_server and entry.held_cell and is_over_at_server(entry, key) then
                release(self, entry)
                closed = closed + 1
            end
        end
    end
    return others, closed
end


--- Return the probes among the requests that had to be closed in this way since the last call: { upstream, peer } each.
function _M:take_unknown_probes()
    local probes = self.unknown_probes
    if #probes > 0 then
        self.unknown_probes = {}
    end
    return probes
end


--- Return how many requests of each upstream had to be closed in this way since the last call.
function _M:take_unlogged()
    local unlogged = self.unlogged
    if next(unlogged) then
        self.unlogged = {}
    end
    return unlogged
end


--- Remove a cell from the list; the last one moves to its place.
local function unlist(self, i)
    local cells = self.cells
    local cell = cells[i]
    self.counts[cell * LINE + IDLE] = 0
    self.addresses[cell] = nil
    cells[i] = cells[#cells]
    cells[#cells] = nil
end


--- Call sink(address, cell, picks, completed, failed, latency_ms, untimed, cost) for the counts since the last call.
-- The latency_ms is the sum over the timed requests, completed less untimed; cost is that of all completed. Return
-- address -> requests in flight. Servers listed while it breathes wait for the next call. Only one call may run at a
-- time.
function _M:take_all(sink, breathe)
    local in_flight, counts = {}, self.counts
    breathe = breathe or no_pause
    self.has_failures = false
    for i = #self.cells, 1, -1 do
        local cell = self.cells[i]
        local row, address = cell * LINE, self.addresses[cell]
        local picks, completed, failed = counts[row + PICKS], counts[row + COMPLETED], counts[row + FAILED]
        if counts[row + IN_FLIGHT] > 0 then
            in_flight[address] = counts[row + IN_FLIGHT]
        end
        if picks + completed + failed > 0 then
            local latency_ms, untimed, cost = counts[row + LATENCY_MS], counts[row + UNTIMED], counts[row + COST]
            for field = PICKS, COST do
                counts[row + field] = 0
            end
            counts[row + IDLE] = 0
            sink(address, cell, picks, completed, failed, latency_ms, untimed, cost)
        elseif counts[row + IN_FLIGHT] == 0 then
            counts[row + IDLE] = counts[row + IDLE] + 1
            if counts[row + IDLE] > FORGET_AFTER then
                unlist(self, i)
            end
        end
        if i % ADDRESSES_PER_BREATH == 0 then
            breathe()
        end
    end
    return in_flight
end


return _M
