--- What servers did since a job's last turn: their totals now, and then.
--
--   <key>         the totals at the last turn, packed: #fields doubles an address,
--   <key>/order   in the order of these addresses, one a line
--
-- The next turn may be another worker's, so both stand in the shared dict. And
-- packed, because for 10,000 servers JSON once a second would cost more than
-- their requests do: a turn reads the totals in slices, about 1 us a field.

local ffi = require "ffi"

local DOUBLES, BYTES = ffi.typeof("double[?]"), 8

-- Servers between two breaths: about 0.1 ms.
local ROWS = 50

local _M = {}


--- What the peers did since nginx started, packed, and the order.
local function count(totals, peers, fields, breathe)
    local order, n, at = {}, #fields, 0
    local packed = DOUBLES(math.max(1, n * #peers))
    for i = 1, #peers do
        local address = peers[i].address
        order[i] = address
        for f = 1, n do
            packed[at] = totals:get(address, fields[f])
            at = at + 1
        end
        if i % ROWS == 0 then
            breathe()
        end
    end
    return packed, table.concat(order, "\n")
end


--- Where each address stands in an order: address -> 0-based index.
local function places_in(order, breathe)
    local places, n = {}, 0
    for address in string.gmatch(order, "[^\n]+") do
        places[address], n = n, n + 1
        if n % ROWS == 0 then
            breathe()
        end
    end
    return places, n
end


--- Take a turn. May yield in breathe().
-- @param key    the job's, in the shared dict
-- @param fields which totals, such as { "completed", "failed" }
-- @return now, before: #fields doubles a peer, in the peers' order (before: nil
--   at the first turn; a peer that is new has done nothing yet); and the set of
--   addresses that were there at the last turn and are no longer, or nil
function _M.turn(worker, key, peers, fields, breathe)
    local dict, n = worker.dict, #fields
    local now, order = count(worker.totals, peers, fields, breathe)
    local text, order_before = dict:get(key), dict:get(key .. "/order")
    dict:set(key, ffi.string(now, BYTES * n * #peers))
    if order_before ~= order then
        dict:set(key .. "/order", order)
    end
    if not text or not order_before then
        return now, nil
    end
    local before = DOUBLES(math.max(1, n * #peers))
    if order_before == order and #text == BYTES * n * #peers then
        ffi.copy(before, text, #text)
        return now, before
    end
    local places, rows = places_in(order_before, breathe)
    if #text ~= BYTES * n * rows then
        return now, nil -- a worker was killed between the two
    end
    local doubles, still = ffi.cast("const double *", text), {}
    for i = 1, #peers do
        local address = peers[i].address
        local place = places[address]
        local from = place and doubles + n * place or now + n * (i - 1)
        for f = 0, n - 1 do
            before[n * (i - 1) + f] = from[f]
        end
        still[address] = true
    end
    for address in pairs(still) do
        places[address] = nil
    end
    return now, before, places
end


return _M
