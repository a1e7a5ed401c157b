--- The weight table: the wire format between the controller and nginx.
--
-- The producer is controller/steelyard_controller/weight_table.py; both ends
-- are tested on docs/contract/weights.json. Pure.

local address = require "steelyard.core.address"
local wire = require "steelyard.core.wire"

local STATES = { up = true, drain = true, down = true, backup = true }

-- Published weights sum to about max(1000, 20 k); 10,000 peers make 200,000.
local MAX_WEIGHT = 1000000

-- No IP:port is longer than 47 characters.
local MAX_ADDRESS = 128

local _M = {}


local function peer_of(row)
    if type(row) ~= "table" or row[1] ~= nil then
        wire.refuse("type", "a peer is not an object")
    end
    local ip, port = address.split(wire.text(row, "address", MAX_ADDRESS))
    if not ip then
        wire.refuse("range", port)
    end
    local state = wire.text(row, "state", 128)
    if not STATES[state] then
        wire.refuse("range", '"state" is none of up, drain, down, backup')
    end
    return {
        id = wire.name(row, "id"),
        address = row.address, ip = ip, port = port,
        weight = wire.integer(row, "weight", 1, MAX_WEIGHT),
        baseline = wire.integer(row, "baseline", 1, MAX_WEIGHT),
        state = state,
    }
end


local function peers_of(document, text)
    local rows = wire.field(document, "peers")
    -- lua-cjson turns {} and [] into the same table; the text tells.
    if type(rows) ~= "table" or (#rows == 0 and (next(rows) ~= nil or string.find(text, '"peers"%s*:%s*{'))) then
        wire.refuse("type", '"peers" is not an array')
    end
    local peers = {}
    for i = 1, #rows do
        peers[i] = peer_of(rows[i])
    end
    -- Workers must agree on ties, whatever order the controller writes.
    table.sort(peers, function(a, b) return a.id < b.id end)
    for i = 2, #peers do
        if peers[i].id == peers[i - 1].id then
            wire.refuse("range", "two peers have the same id")
        end
    end
    return peers
end


local function decoder(text)
    local document = wire.load_object(text)
    local peers = peers_of(document, text)
    return {
        upstream = wire.name(document, "upstream"),
        term = wire.integer(document, "term", 0, wire.MAX_INTEGER),
        generation = wire.integer(document, "generation", 0, wire.MAX_INTEGER),
        issued_at_ms = wire.integer(document, "issued_at_ms", 0, wire.MAX_INTEGER),
        law = wire.name(document, "law"),
        picker = wire.name(document, "picker"),
        peers = peers,
    }
end


--- Read a weight table from the network: the table, its peers in id order, or
-- nil and { reason, detail }. Total: never raises.
function _M.decode(text)
    return wire.total(decoder, text)
end


--- Compare two tables (or anything with term and generation): -1, 0 or 1.
-- Clocks never order tables.
function _M.compare(a, b)
    if a.term ~= b.term then
        return a.term < b.term and -1 or 1
    end
    if a.generation ~= b.generation then
        return a.generation < b.generation and -1 or 1
    end
    return 0
end


--- The table of an upstream for which only a list of addresses is known.
-- Not on the wire: term and generation are 0 and any published table is later.
function _M.bootstrap(upstream, peers)
    return {
        upstream = upstream, term = 0, generation = 0, issued_at_ms = 0,
        law = "bootstrap", picker = "vnswrr", peers = peers,
    }
end


return _M
