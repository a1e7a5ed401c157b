--- Zones: near servers first, as a weight table says it.
--
--   "zones":["a","b"]                               the servers' zones; a row has "zone" or is in none
--   "zone_factors":[[1000,1,1],[1000,200,1],..]     by what load balancers of each zone, and last those of none,
--                                                   multiply the weights of each zone's servers, and of no zone's
--
-- The producer is controller/steelyard_controller/laws/zones.py, which has the rule. What a peer's zone gets is
-- put into its weight when a table is taken, so a request costs what it did; and peers have a `group`, the zone, so
-- that pickers choose among those of the one that is next on the ring (pickers/candidates). A factor is 1 at the
-- least: servers of a zone that gets nothing are there for who has lost all others. Pure.

local wire = require "steelyard.core.wire"

-- As many as a declaration may have; larger factors would make weights that no ring takes.
local MOST_ZONES, LARGEST_FACTOR = 32, 1000

-- Rows between two calls of breathe.
local ROWS = 100

local _M = {}


--- The factors of a table or its head: as many rows as each has figures.
function _M.factors_of(document, text)
    local rows = wire.array(document, "zone_factors", text)
    for from = 1, #rows do
        local row = rows[from]
        if type(row) ~= "table" or #row ~= #rows then
            wire.refuse("range", '"zone_factors" has no ' .. #rows .. " figures in a row")
        end
        for to = 1, #rows do
            wire.integer(row, to, 1, LARGEST_FACTOR)
        end
    end
    return rows
end


--- What a table says of zones: `factors` by the zone of load balancers and that of servers, "" for none. nil where it
-- has no zones; the same as `before` where it says the same.
function _M.of_table(document, text, before)
    if document.zones == nil and document.zone_factors == nil then
        return nil
    end
    local names, rows = wire.array(document, "zones", text), _M.factors_of(document, text)
    local count, factors, written = #names + 1, {}, {}
    if count == 1 or count > MOST_ZONES + 1 or #rows ~= count then
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
    return before and before.text == all and before or { factors = factors, text = all }
end


--- The peers with weights for a load balancer in a zone; the same list where the table says nothing of it.
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
        breathe(i, ROWS)
    end
    return weighed
end


return _M
