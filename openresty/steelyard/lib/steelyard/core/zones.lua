--- Zones: near servers first, by the factors of a weight table.
--
--   "zones":["a","b"]                               the servers' zones; a row has "zone" or is in none
--   "zone_factors":[[1000,1,1],[1000,200,1],..]     a row for the load balancers of each zone, and a last one for
--                                                   those in none: a factor for each zone's servers, and for the rest
--
-- The producer is controller/steelyard_controller/laws/zones.py, which has the rule. A factor is multiplied into a
-- peer's weight when a table is taken, so a request costs no more. Peers get their zone as `group`: pickers choose
-- within the group of the next peer on the ring (pickers/candidates). A factor is at least 1: servers of a zone
-- without a share are there for load balancers that lost all others. Pure.

local wire = require "steelyard.core.wire"

-- The bound of declarations; larger factors would make weights too large for a ring.
local MAX_ZONES, MAX_FACTOR = 32, 1000

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = {}


--- Return the factors of a table or its head: a square of figures.
function _M.factors_of(document, text)
    local rows = wire.array(document, "zone_factors", text)
    for from = 1, #rows do
        local row = rows[from]
        if type(row) ~= "table" or #row ~= #rows then
            wire.refuse("range", '"zone_factors" has no ' .. #rows .. " figures in a row")
        end
        for to = 1, #rows do
            wire.integer(row, to, 1, MAX_FACTOR)
        end
    end
    return rows
end


--- Return a table's zones: `factors` by the zone of load balancers and that of servers, "" for none. Nil without zones;
-- the same table as `previous` if nothing changed.
function _M.of_table(document, text, previous)
    if document.zones == nil and document.zone_factors == nil then
        return nil
    end
    local names, rows = wire.array(document, "zones", text), _M.factors_of(document, text)
    local count, factors, written = #names + 1, {}, {}
    if count == 1 or count > MAX_ZONES + 1 or #rows ~= count then
        wire.refuse("range", '"zones" has ' .. #names .. ' names, and "zone_factors" ' .. #rows .. " rows")
    end
    for from = 1, count do
        local row, of_zone = rows[from], {}
        for to = 1, count do
            of_zone[to < count and wire.name(names, to) or ""] = row[to]
        end
        factors[names[from] or ""] = of_zone
        written[from] = (names[from] or "") .. " " .. table.concat(row, ",")
    end
    local all = table.concat(written, ";")
    return previous and previous.text == all and previous or { factors = factors, text = all }
end


--- Return the peers with weights for a load balancer in a zone; the same list if the table has none for it.
-- @param zones of of_table, or nil
function _M.weighed(peers, zones, zone, breathe)
    local factors = zones and zone and zones.factors[zone]
    if not factors then
        return peers
    end
    local weighed = {}
    for i = 1, #peers do
        local peer = {}
        for key, value in pairs(peers[i]) do
            peer[key] = value
        end
        peer.group = factors[peer.zone] and peer.zone or ""
        peer.weight = peer.weight * factors[peer.group]
        weighed[i] = peer
        breathe(i, ROWS_PER_BREATH)
    end
    return weighed
end


return _M
