--- The counters of all workers in the shared dict.
--
-- Counts only grow, by `incr`, so workers never overwrite each other. Requests in flight are a level and not a count:
-- each worker writes its own, under its own slot, with a TTL. So a killed worker leaves nothing behind for longer. A
-- worker that outlives a reload goes on writing until its last request ends.
--
-- A job that needs the counts since its last run keeps two keys:
--
--   <key>         the totals at the last run, packed: #fields doubles an address
--   <key>/order   the addresses in that order, one a line
--
-- Another worker may do the next run, so both are in the shared dict. They are packed, because for 10,000 servers JSON
-- once a second would cost more than their requests do.
--
-- A run reads the totals in slices, from the copies that the workers share (core/cell_totals). Leaving workers do not
-- see them (io/leaving_counts). Without copies, and for an upstream's own failures, it reads the counters themselves,
-- about 1 us each.

local cell_totals = require "steelyard.core.cell_totals"
local clock = require "steelyard.io.clock"
local ffi = require "ffi"
local json = require "steelyard.core.json"
local leaving_counts = require "steelyard.io.leaving_counts"
local own_failures = require "steelyard.core.own_failures"
local shared_dict = require "steelyard.io.shared_dict"

local DOUBLES, BYTES = ffi.typeof("double[?]"), 8

local FIELDS = cell_totals.FIELDS

-- Field -> its place in a row of copies; nil for an upstream's own failures.
local PLACES = {}
for place = 1, #FIELDS do
    PLACES[FIELDS[place]] = place - 1
end

-- Two flushes, or more than twelve with few servers: a worker that is busy for a second or two is not forgotten.
local WORKER_TTL_S = 3

-- Slots are numbered from nginx's start, and only the last ones are read. With more workers alive at once, there would
-- be hundreds of reloads a minute.
local MAX_WORKERS = 256

-- The counts of an upstream with rules of its own (core/own_failures), and the first part of their keys. The upstream
-- and the server's address follow.
local OWN = { own_failed = "own_failed/", completed = "own_tries_completed/", failed = "own_tries_failed/" }

-- The counters of a server in the dict; and the room for new ones in pages that hold some already.
local BYTES_PER_SERVER, IN_USED_PAGES = 128 * #FIELDS, 65536

-- Servers between two calls of breathe(): about 0.05 ms.
local ROWS_PER_BREATH = 20

local _M = {}
local mt = { __index = _M }


--- Open the counters in a lua_shared_dict.
-- @param totals core/cell_totals: copies of them; nil if the workers share none
function _M.new(dict, totals)
    return setmetatable({ dict = dict, totals = totals, leaving = false }, mt)
end


--- Whether no worker has used the dict yet.
function _M.is_unused(dict)
    return not dict:get("workers")
end


--- Give this worker its slot.
function _M:enter()
    self.slot = self.dict:incr("workers", 1, 0)
    leaving_counts.begin(self.dict)
end


--- From now on this worker leaves, after a reload: others do not see its copies.
function _M:leave()
    self.leaving = true
end


--- Add this worker's counts, and publish its requests in flight.
-- @param about   a table that describes this worker
-- @param breathe called now and then; may yield
function _M:flush(requests, about, breathe)
    local dict, totals, addresses = self.dict, self.totals, {}
    about.in_flight = requests:take_all(function(address, cell, ...)
        if #addresses <= leaving_counts.MOST_ADDRESSES then
            addresses[#addresses + 1] = address
        end
        for i = 1, #FIELDS do
            local count = select(i, ...)
            if count > 0 then
                local sum = dict.bulk:incr(FIELDS[i] .. "/" .. address, count, 0)
                if sum and totals then
                    totals:note(cell, address, i, sum)
                end
            end
        end
    end, breathe)
    about.leaving = self.leaving or nil -- it may have begun to leave meanwhile
    dict.bulk:set("worker/" .. self.slot, json.encode(about), WORKER_TTL_S)
    if self.leaving then
        leaving_counts.note(dict, addresses)
        dict:set("left_at", clock.monotonic(), WORKER_TTL_S)
    end
end


--- The field of a count of an upstream with rules of its own.
-- @param count own_failed, completed or failed, as in core/own_failures
function _M.own_field(upstream, count)
    return OWN[count] .. upstream
end


--- Add this worker's counts of an upstream with rules of its own.
-- @param counts as taken from core/own_failures
function _M:flush_own(upstream, counts)
    for count, by_address in pairs(counts) do
        local field = _M.own_field(upstream, count) .. "/"
        for address, tries in pairs(by_address) do
            self.dict.bulk:incr(field .. address, tries, 0)
        end
    end
end


--- One of an address's counts since nginx started.
function _M:get(address, field)
    local value = self.dict:get(field .. "/" .. address)
    return value or 0
end


--- An address's counts since nginx started.
-- @param upstream name of an upstream with rules of its own, to count by these; else nil
function _M:of(address, upstream)
    local total = {}
    for i = 1, #FIELDS do
        total[FIELDS[i]] = self:get(address, FIELDS[i])
    end
    if upstream then
        local own = self:get(address, _M.own_field(upstream, "own_failed"))
        total.untimed = math.max(0, total.untimed - own)
        total.completed, total.failed = own_failures.of_upstream(total.completed, total.failed, own)
    end
    return total
end


--- Forget an address that is no longer served.
-- @param totals core/cell_totals, and `cell` its last one; or nil
function _M.forget(dict, address, totals, cell)
    for i = 1, #FIELDS do
        dict:delete(FIELDS[i] .. "/" .. address)
    end
    if totals and cell and totals.cells:is_owner(cell, address) then
        totals:forget(cell)
    end
end


--- Forget the counts of an upstream with rules of its own at an address that it no longer has.
function _M.forget_own(dict, upstream, address)
    for count in pairs(OWN) do
        dict:delete(_M.own_field(upstream, count) .. "/" .. address)
    end
end


--- The addresses without counters.
local function uncounted(dict, addresses, breathe)
    local without = {}
    for i = 1, #addresses do
        if not dict:get(FIELDS[#FIELDS] .. "/" .. addresses[i]) then
            without[#without + 1] = addresses[i]
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return without
end


--- Remove counters that were claimed in vain.
function _M.give_back(dict, made)
    for i = 1, #made do
        _M.forget(dict, made[i])
    end
end


--- Forget the addresses that never had a request, of servers that have left. The traffic report forgets the others.
function _M.forget_unused(dict, addresses, breathe)
    for i = 1, #addresses do
        if dict:get(FIELDS[1] .. "/" .. addresses[i]) == 0 then
            _M.forget(dict, addresses[i])
        end
        breathe(i, ROWS_PER_BREATH)
    end
end


--- Make the counters of addresses that have none, so that their counts find room later.
-- @return whether all found room; if not, none is made
-- @return the addresses whose counters were made
-- @return the bytes that all need
function _M.claim(dict, addresses, breathe)
    local new = uncounted(dict, addresses, breathe)
    local bytes = BYTES_PER_SERVER * #new
    if bytes > dict:free_space() + IN_USED_PAGES then
        return false, {}, bytes -- to find that out server by server, at each fetch, would cost more than the fetch
    end
    local made = {}
    for i = 1, #new do
        made[i] = new[i]
        for f = 1, #FIELDS do
            local _, err = dict.bulk:add(FIELDS[f] .. "/" .. new[i], 0)
            if err == shared_dict.FULL then
                _M.give_back(dict, made)
                return false, {}, bytes
            end
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return true, made, bytes
end


--- The descriptions of the workers alive, as of their last flushes; and address -> requests in flight at all of them.
function _M:workers()
    local workers, in_flight = {}, {}
    local last = self.dict:get("workers") or 0
    for slot = math.max(1, last - MAX_WORKERS + 1), last do
        local text = self.dict:get("worker/" .. slot)
        local worker = text and json.decode(text)
        if worker then
            workers[#workers + 1] = worker
            for address, n in pairs(worker.in_flight) do
                in_flight[address] = (in_flight[address] or 0) + n
            end
        end
    end
    return workers, in_flight
end


--- Address -> requests in flight at workers that leave after a reload, and when such a worker last flushed; nil if that
-- time is `known_at`.
function _M:left_behind(known_at)
    local left, left_at = {}, self.dict:get("left_at")
    if left_at == known_at then
        return nil
    end
    for _, worker in ipairs((self:workers())) do
        if worker.leaving then
            for address, n in pairs(worker.in_flight) do
                left[address] = (left[address] or 0) + n
            end
        end
    end
    return left, left_at
end


--- Make a function of a peer: the index of its first total in the copies, which are brought up to date if need be. Nil
-- if it has no copy.
local function rows_of(self)
    local dict, totals, now = self.dict, self.totals, clock.monotonic()
    if not totals then
        return function() return nil end
    end
    leaving_counts.follow(dict, totals, now)
    local function get(address, field)
        return self:get(address, field)
    end
    return function(peer)
        return totals:row(peer.cell, peer.address, now) or totals:read(peer.cell, peer.address, get, now)
    end
end


--- The totals of the peers since nginx started, packed.
local function pack(self, peers, fields, breathe)
    local n, at, row_of, places = #fields, 0, rows_of(self), {}
    local packed, copies = DOUBLES(math.max(1, n * #peers)), self.totals and self.totals.doubles
    for f = 1, n do
        places[f] = PLACES[fields[f]] or false
    end
    for i = 1, #peers do
        local peer = peers[i]
        local row = row_of(peer)
        for f = 1, n do
            local place = row and places[f]
            packed[at] = place and copies[row + place] or self:get(peer.address, fields[f])
            at = at + 1
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return packed
end


-- List of peers -> its addresses, one a line.
local orders = setmetatable({}, { __mode = "k" })

local function order_of(peers)
    local order = orders[peers]
    if not order then
        local addresses = {}
        for i = 1, #peers do
            addresses[i] = peers[i].address
        end
        order = table.concat(addresses, "\n")
        orders[peers] = order
    end
    return order
end


--- The index of each address in an order: address -> 0-based index.
local function places_in(order, breathe)
    local places, n = {}, 0
    for address in string.gmatch(order, "[^\n]+") do
        places[address], n = n, n + 1
        breathe(n, ROWS_PER_BREATH)
    end
    return places, n
end


--- The peers' totals now, and at the last call with this key. May yield in breathe().
-- @param key    the key of the job in the shared dict
-- @param fields the names of totals, such as { "completed", "failed" }
-- @return now, before: #fields doubles a peer, in the peers' order (before: nil
--   at the first call; a new peer has done nothing yet); and the set of the
--   addresses that have left since the last call, or nil. The counts of a new
--   peer may be from another upstream, where it has been for days.
function _M:since_last(key, peers, fields, breathe)
    local dict, n = self.dict, #fields
    local now, order = pack(self, peers, fields, breathe), order_of(peers)
    local text, order_before = dict:get(key), dict:get(key .. "/order")
    local packed, stored = ffi.string(now, BYTES * n * #peers), true
    if packed ~= text then
        stored = dict.bulk:set(key, packed)
    end
    if order_before ~= order then
        stored = dict.bulk:set(key .. "/order", order) and stored
    end
    if not stored then
        dict:delete(key)
        dict:set(key .. "/order", "") -- the next call is not the first one
    end
    if not order_before then
        return now, nil
    elseif not text then
        return now, now -- the last totals found no room: the counts of this interval are unknown
    end
    local before = DOUBLES(math.max(1, n * #peers))
    if order_before == order and #text == BYTES * n * #peers then
        ffi.copy(before, text, #text)
        return now, before
    end
    local places, rows = places_in(order_before, breathe)
    if #text ~= BYTES * n * rows then
        -- A worker was killed between its two writes, or costs are new: the counts of this interval are unknown.
        return now, now
    end
    local doubles, served = ffi.cast("const double *", text), {}
    for i = 1, #peers do
        local address = peers[i].address
        local place = places[address]
        local from = place and doubles + n * place or now + n * (i - 1)
        for f = 0, n - 1 do
            before[n * (i - 1) + f] = from[f]
        end
        served[address] = true
    end
    for address in pairs(served) do
        places[address] = nil
    end
    return now, before, places
end


return _M
