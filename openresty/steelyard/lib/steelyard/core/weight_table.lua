--- The weight table: the wire format between the controller and nginx.
--
-- The producer is protocol/steelyard_protocol/weight_table.py; both ends are tested on docs/contract/weights.json. A
-- controller publishes each second and changes little: what a table has in common with the previous one is taken from
-- there and not decoded again. So two successive tables may share peers. Pure.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local json = require "steelyard.core.json"
local no_pause = require("resty.vnswrr").no_pause
local sort = require "resty.vnswrr.sort"
local wire = require "steelyard.core.wire"
local zones = require "steelyard.core.zones"

local STATES = { up = true, drain = true, down = true, backup = true }

-- Published weights sum to S, 20 a peer; no law makes S larger than this by itself.
local MAX_WEIGHT = 1000000

-- No IP:port is longer than 47 characters.
local MAX_ADDRESS = 128

-- Bound of max_conns.
local HIGHEST_MAX_CONNS = 1000000

-- `argument:` and a name of 64 bytes.
local MAX_HASH_KEY = 73

-- A day, and an hour for clocks with a time zone set wrong.
local MAX_AGE_S = 25 * 3600

-- Rows between two calls of breathe(): 0.1 ms if every one is new.
local ROWS_PER_BREATH = 20

local NO_OPTIONS = {}

local _M = {}


--- Return the max_conns of a row, or of the table, over all load balancers; nil: no limit.
local function max_conns_of(object)
    return object.max_conns ~= nil and wire.integer(object, "max_conns", 1, HIGHEST_MAX_CONNS) or nil
end


--- Check a row; `known` is the peer of the previous table in this place, or nil.
local function peer_of(row, known)
    if type(row) ~= "table" or row[1] ~= nil then
        wire.refuse("type", "a peer is not an object")
    end
    local same_place = known and row.id == known.id and row.address == (known.written_as or known.address)
    if same_place and row.weight == known.weight and row.baseline == known.baseline and row.state == known.state
       and row.zone == known.zone and row.pinned == known.pinned and row.max_conns == known.max_conns then
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
    if row.pinned ~= nil and type(row.pinned) ~= "boolean" then
        wire.refuse("type", '"pinned" is neither true nor false')
    end
    -- LuaJIT gives these seven fields and the cell a table of eight places, 256 bytes. A ninth one doubles the places,
    -- so the optional fields are set only if there is a value.
    local peer = {
        id = wire.name(row, "id"),
        address = ip .. ":" .. port, ip = ip, port = port,
        weight = wire.integer(row, "weight", 1, MAX_WEIGHT),
        baseline = wire.integer(row, "baseline", 1, MAX_WEIGHT),
        state = state,
    }
    if row.address ~= peer.address then
        peer.written_as = row.address
    end
    if row.zone ~= nil then
        peer.zone = wire.name(row, "zone")
    end
    if row.pinned ~= nil then
        peer.pinned = row.pinned
    end
    if row.max_conns ~= nil then
        peer.max_conns = max_conns_of(row)
    end
    return peer
end


--- Return the peers in the order of the text; the list of the previous table if nothing changed.
local function rows_of(rows, previous, breathe)
    local peers, changed = {}, #rows ~= #previous
    for i = 1, #rows do
        peers[i] = rows[i] == json.AS_KNOWN and previous[i] or peer_of(rows[i], previous[i])
        changed = changed or peers[i] ~= previous[i]
        breathe(i, ROWS_PER_BREATH)
    end
    return changed and peers or previous
end


--- Return the peers in id order, so that all workers agree on ties. Usually the controller writes them in it.
local function in_id_order(written, breathe)
    local ids, peers, rises = {}, {}, true
    for i = 1, #written do
        ids[i], peers[i] = written[i].id, written[i]
        rises = rises and (i == 1 or ids[i - 1] < ids[i])
    end
    if rises then
        return written
    end
    ids, peers = sort.sorted(ids, peers, breathe)
    for i = 2, #ids do
        if ids[i] == ids[i - 1] then
            wire.refuse("range", "two peers have the same id")
        end
    end
    return peers
end


local function peers_of(document, text, previous, breathe)
    local rows = wire.array(document, "peers", text)
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


--- Return the load balancers whose reports the controller reads: a set of their names.
local function reporters_of(document, text)
    local reporters, names = wire.array(document, "reporters", text), {}
    for i = 1, #reporters do
        names[wire.name(reporters, i)] = true
    end
    return names
end


local function decoder(text, previous, breathe)
    local document, place = wire.load_object(text, function()
        return json.decode_in_slices(text, "peers", breathe, previous.peers_place)
    end, wire.MAX_TABLE_BYTES)
    local peers, written = previous.peers, previous.written
    if not place or not place.is_known then
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
        -- Without these, nginx.conf's are in force.
        check = check_settings.of_table(document), hash_key = key, hash_variable = variable,
        max_conns = max_conns_of(document),
        reporters = reporters_of(document, text),
        zones = zones.of_table(document, text, previous.zones), -- nil: the same weights in every zone
        -- For all that its head leaves out; nil: it has no head.
        digest = document.digest ~= nil and wire.name(document, "digest") or nil,
        -- For the decoding of the next one:
        written = written, -- the peers in the text's order
        peers_place = place, -- their place in the text; nil if it was not cut into slices
    }
end


--- Read a weight table from the network: return the table, with its peers in id order, or nil and { reason, detail }.
-- Total: never raises.
-- @param options.breathe  called every 0.1 ms or so of work; may yield
-- @param options.previous the previous table. If no peer changed, `peers` is the same list
function _M.decode(text, options)
    options = options or NO_OPTIONS
    return wire.total(decoder, text, options.previous or NO_OPTIONS, options.breathe or no_pause)
end


--- Compare two tables (or anything with term and generation): -1, 0 or 1. Clocks never order tables.
function _M.compare(a, b)
    if a.term ~= b.term then
        return a.term < b.term and -1 or 1
    end
    if a.generation ~= b.generation then
        return a.generation < b.generation and -1 or 1
    end
    return 0
end


--- Tell whether two tables have the same effect, whatever their order and law.
-- @param b decoded with `a` as the previous one, or from the same text
function _M.same(a, b)
    return a.peers == b.peers and a.zones == b.zones and a.picker == b.picker and a.hash_key == b.hash_key
           and a.max_conns == b.max_conns
           and (a.check and a.check.id) == (b.check and b.check.id)
end


--- The replay guard: return why the first table of an upstream is refused, { reason, detail }, or nil.
--
-- If a table is in use, (term, generation) identifies older ones without any clock. An nginx that starts with nothing
-- would take any signed table. But a table is in Memcached for at most a day (TABLE_TTL_S in the controller's loop),
-- and a controller's own answer is a tick old. So one issued earlier is a recording, or one of the two clocks is
-- wrong.
--
-- @param now seconds since 1970, by this machine's clock
function _M.replayed(first, now)
    local age_s = now - first.issued_at_ms / 1000
    if age_s <= MAX_AGE_S then
        return nil
    end
    return {
        reason = "replayed",
        detail = string.format("it was issued %.0f hours ago by this machine's clock, and no table is kept for more "
                               .. "than 24: an old one is back, or a clock is wrong, here or at the controller: "
                               .. "set it", age_s / 3600),
    }
end


--- Tell whether a table names a load balancer beside this one. The list in nginx.conf names none.
-- @param weight_table or nil
function _M.names_another(weight_table, lb)
    for name in pairs(weight_table and weight_table.reporters or {}) do
        if name ~= lb then
            return true
        end
    end
    return false
end


--- Make the table of an upstream with only a list of addresses. It is not on the wire: term and generation are 0, and
-- any published table is later.
function _M.bootstrap(upstream, peers)
    return {
        upstream = upstream, term = 0, generation = 0, issued_at_ms = 0,
        law = "bootstrap", picker = "vnswrr2", peers = peers,
    }
end


return _M
