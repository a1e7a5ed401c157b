--- The weight table: the wire format between the controller and nginx.
--
-- The producer is controller/steelyard_controller/pipeline/weight_table.py; both ends
-- are tested on docs/contract/weights.json. A controller publishes each second
-- and changes little: what a table has in common with the one before is taken
-- from there, peers and all, so that it costs nobody anything. A peer of a
-- decoded table may thus be a peer of the table before, too. Pure.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local slices = require "steelyard.core.slices"
local sorting = require "steelyard.core.sorting"
local wire = require "steelyard.core.wire"

local STATES = { up = true, drain = true, down = true, backup = true }

-- Published weights sum to about max(1000, 20 k); 10,000 peers make 200,000.
local MAX_WEIGHT = 1000000

-- No IP:port is longer than 47 characters.
local MAX_ADDRESS = 128

-- `argument:` and a name of 64.
local MAX_HASH_KEY = 73

-- Rows between two breaths: 0.2 ms when every one is new.
local ROWS = 50

local NOTHING = {}

local _M = {}

local function no_pause() end


--- Check a row; `known` is the peer of the table before in this place, or nil.
local function peer_of(row, known)
    if type(row) ~= "table" or row[1] ~= nil then
        wire.refuse("type", "a peer is not an object")
    end
    local same_place = known and row.id == known.id and row.address == known.address
    if same_place and row.weight == known.weight and row.baseline == known.baseline and row.state == known.state then
        return known
    end
    local ip, port
    if same_place then
        ip, port = known.ip, known.port
    else
        ip, port = address.split(wire.text(row, "address", MAX_ADDRESS))
        if not ip then
            wire.refuse("range", port)
        end
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


--- The peers in the order of the text; the list of the table before when nothing changed.
local function rows_of(rows, before, breathe)
    local peers, changed = {}, #rows ~= #before
    for i = 1, #rows do
        peers[i] = peer_of(rows[i], before[i])
        changed = changed or peers[i] ~= before[i]
        if i % ROWS == 0 then
            breathe()
        end
    end
    return changed and peers or before
end


--- Workers must agree on ties, whatever order the controller writes.
local function in_id_order(written, breathe)
    local peers = sorting.by_id(written, breathe)
    breathe()
    for i = 2, #peers do
        if peers[i].id == peers[i - 1].id then
            wire.refuse("range", "two peers have the same id")
        end
    end
    return peers
end


local function peers_of(document, text, previous, breathe)
    local rows = wire.field(document, "peers")
    -- lua-cjson turns {} and [] into the same table; the text tells.
    if type(rows) ~= "table" or (#rows == 0 and (next(rows) ~= nil or string.find(text, '"peers"%s*:%s*{'))) then
        wire.refuse("type", '"peers" is not an array')
    end
    local written = rows_of(rows, previous.written or {}, breathe)
    if written == previous.written then
        return previous.peers, written
    end
    return in_id_order(written, breathe), written
end


local function hash_key_of(document)
    if document.hash_key == nil then
        return nil
    end
    local key = wire.text(document, "hash_key", MAX_HASH_KEY)
    local variable = hash_key.variable(key)
    if not variable then
        wire.refuse("range", '"hash_key" is wrong: ' .. hash_key.REMEDY)
    end
    return key, variable
end


local function decoder(text, previous, breathe)
    local document, list = wire.load_object(text, function()
        return slices.decode(text, "peers", breathe, previous.peers_text)
    end)
    local peers, written = previous.peers, previous.written
    if not list or list ~= previous.peers_text then
        peers, written = peers_of(document, text, previous, breathe)
    end
    local key, variable = hash_key_of(document)
    return {
        upstream = wire.name(document, "upstream"),
        term = wire.integer(document, "term", 0, wire.MAX_INTEGER),
        generation = wire.integer(document, "generation", 0, wire.MAX_INTEGER),
        issued_at_ms = wire.integer(document, "issued_at_ms", 0, wire.MAX_INTEGER),
        law = wire.name(document, "law"),
        picker = wire.name(document, "picker"),
        peers = peers,
        -- Where the table has none, nginx.conf's stand.
        check = check_settings.of_table(document), hash_key = key, hash_variable = variable,
        -- For the decoding of the next one:
        written = written, -- the peers in the text's order
        peers_text = list, -- the text between the brackets; nil when it was not cut into slices
    }
end


--- Read a weight table from the network: the table, its peers in id order, or
-- nil and { reason, detail }. Total: never raises.
-- @param options.breathe  called every 0.2 ms or so of work; may yield
-- @param options.previous the table before this one. With the same peers, `peers` is its very list
function _M.decode(text, options)
    options = options or NOTHING
    return wire.total(decoder, text, options.previous or NOTHING, options.breathe or no_pause)
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


--- Tell whether two tables ask for the same, whatever their order and law.
-- @param b decoded with `a` as the one before, or from the same text
function _M.same(a, b)
    return a.peers == b.peers and a.picker == b.picker and a.hash_key == b.hash_key
           and (a.check and a.check.id) == (b.check and b.check.id)
end


--- The table of an upstream for which only a list of addresses is known.
-- Not on the wire: term and generation are 0 and any published table is later.
function _M.bootstrap(upstream, peers)
    return {
        upstream = upstream, term = 0, generation = 0, issued_at_ms = 0,
        law = "bootstrap", picker = "vnswrr2", peers = peers,
    }
end


return _M
