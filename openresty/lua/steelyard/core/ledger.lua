--- The ledger of one worker: requests that are open, and what became of them.
--
-- Open requests are kept under a key of the caller's (the request's pointer)
-- and not in the request's context, because nginx wipes that on an internal
-- redirect (error_page), before the log phase. A key that was never closed (a
-- location without the log line) is taken over by the next request that gets
-- it, and the peer it held is released then.
--
-- Counts are kept per *address*: a server in two upstreams does the work of
-- both. `drain` hands out what has changed since the last time; the board
-- shows at once what pickers want to know. Pure.

-- Drains (a quarter second apart) without a request after which an address is forgotten.
local FORGET_AFTER = 40

-- Addresses between two breaths: 0.1 ms, with three counts to hand out for each.
local ROWS = 100

local function no_pause() end

local _M = {}
local mt = { __index = _M }


--- Make an empty ledger that writes to a board.
function _M.new(board)
    return setmetatable({ board = board, open = {}, spare = {}, counts = {}, addresses = {} }, mt)
end


local function counts_of(self, address)
    local counts = self.counts[address]
    if not counts then
        counts = { picks = 0, completed = 0, failed = 0, latency_ms = 0, in_flight = 0, idle = 0 }
        self.counts[address] = counts
        self.addresses[#self.addresses + 1] = address
    end
    return counts
end


local function release(self, entry)
    local held = entry.held
    if held then
        held.in_flight = held.in_flight - 1
        self.board:lower(entry[entry.n].cell)
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
    local n = entry.n + 1
    entry.n, entry[n] = n, peer
    local counts = counts_of(self, peer.address)
    counts.picks = counts.picks + 1
    counts.in_flight = counts.in_flight + 1
    self.board:raise(peer.cell)
    entry.held = counts
end


--- Note that no peer was found; the try before it is over.
function _M:none(entry, why)
    release(self, entry)
    entry.why = why
end


--- Count what became of one try.
function _M:count(address, verdict, latency_ms)
    local counts = counts_of(self, address)
    if verdict == "completed" then
        counts.completed = counts.completed + 1
        counts.latency_ms = counts.latency_ms + latency_ms
    elseif verdict == "failed" then
        counts.failed = counts.failed + 1
    end
end


--- Count what became of one try at a peer, and show it on the board.
function _M:tried(peer, verdict, latency_ms, now)
    self:count(peer.address, verdict, latency_ms)
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


--- Call sink(address, counts) for what was counted since the last drain, and
-- return address -> requests in flight. Addresses that come while it breathes
-- are left for the next drain; there may be only one drain at a time.
function _M:drain(sink, breathe)
    local in_flight, addresses = {}, self.addresses
    breathe = breathe or no_pause
    for i = #addresses, 1, -1 do
        local address = addresses[i]
        local counts = self.counts[address]
        if counts.in_flight > 0 then
            in_flight[address] = counts.in_flight
        end
        if counts.picks + counts.completed + counts.failed > 0 then
            sink(address, counts)
            counts.picks, counts.completed, counts.failed, counts.latency_ms = 0, 0, 0, 0
            counts.idle = 0
        elseif counts.in_flight == 0 then
            counts.idle = counts.idle + 1
            if counts.idle > FORGET_AFTER then
                self.counts[address] = nil
                addresses[i] = addresses[#addresses]
                addresses[#addresses] = nil
            end
        end
        if i % ROWS == 0 then
            breathe()
        end
    end
    return in_flight
end


return _M
