--- A subset: the servers that one of many load balancers keeps connections to.
--
-- Servers stand on a ring in the order of a hash of their ids, each with an arc as long as its baseline weight: no
-- tick of a law moves them. Load balancers begin evenly around it, in the order of a hash of their names. Of n the
-- one at place i has of the ring, whose length is 1,
--
--   [i/n, (i + m)/n)      m = ceil(n size / servers)
--
-- so each point belongs to m of them, and all arcs weigh the same. Of a server at an end it is the part within that
-- counts, of its weight too: over all load balancers each server gets its share, exactly where weights are as
-- baselines are. Only `up` servers have a length; others belong to who has the place, and backups to all.
--
-- Where less than HEALTHY of the arc is in health, it goes on behind its end until so much is.
--
-- Where load balancers of a zone have weights of their own (core/zones) all servers are used: who else is in one's
-- zone no table says, and an arc's servers would be at the mercy of how many that are.
--
-- A server that comes or goes moves each end by less than a server, a load balancer by less than an n-th. Who the
-- others are the weight tables say. Figures: docs/research/scaling.md. Pure.

local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause
local sort = require "resty.vnswrr.sort"

-- What is left then has a third more than its part: at a load of three quarters it is full.
local HEALTHY = 0.75

-- Rows between two breaths.
local ROWS = 100

local _M = {}
local mt = { __index = _M }


--- Make the subset of an upstream whose table is not known yet.
-- @param size about how many servers it has, or some more
-- @param lb   this load balancer's name
function _M.new(size, lb)
    return setmetatable({ size = size, lb = lb, ids = {}, known = nil, served = nil, about = nil }, mt)
end


--- The numbers of some names in the order of their hashes; two of one hash by how they are listed.
local function by_hash(names, breathe)
    local hashes, numbers = {}, {}
    for i = 1, #names do
        hashes[i], numbers[i] = hash_ring.hash(names[i]), i
    end
    local _, order = sort.sorted(hashes, numbers, breathe)
    return order
end


--- This load balancer's place among those that the table names, from 0, and how many there are. One that it does not
-- name yet is about to be.
local function place_of(lb, reporters)
    local names, place = { lb }, 1
    for name in pairs(reporters) do
        names[#names + 1] = name ~= lb and name or nil
    end
    table.sort(names)
    local order = by_hash(names, no_pause)
    while names[order[place]] ~= lb do
        place = place + 1
    end
    return place - 1, #names
end


local function length_of(peer)
    return peer.state == "up" and peer.baseline or 0
end


--- Which part of each peer lies within an arc, by its number, and how many further peers it took for those out of
-- health.
local function parts_of(peers, order, from, width, unhealthy)
    local parts, k, first, left, least, more = {}, #peers, 1, width, HEALTHY * width, 0
    while from >= length_of(peers[order[first]]) do
        from, first = from - length_of(peers[order[first]]), first + 1
    end
    for step = 0, k do -- the first may be the last, too
        local number = order[(first + step - 1) % k + 1]
        local peer = peers[number]
        local length, sick = length_of(peer), unhealthy[peer.id]
        local within = step == 0 and length - from or step == k and from or length
        local wanted = math.max(left, sick and least > 0 and length or least)
        if wanted <= 0 then
            break
        end
        more = more + (left <= 0 and 1 or 0)
        within = math.min(within, wanted)
        parts[number] = (parts[number] or 0) + (length > 0 and within / length or 1)
        left, least = left - within, least - (sick and 0 or within)
    end
    return parts, more
end


--- The peers of which a part lies within, with that part of their weights, in id order. A controller's weights are 20
-- in the mean: of a part that is less than half of 1 nothing is left.
local function held(peers, parts, breathe)
    local subset = {}
    for i = 1, #peers do
        local peer = peers[i]
        local part = parts[i] or peer.state == "backup" and 1 or 0
        local weight = math.floor(peer.weight * part + 0.5)
        if weight > 0 and weight < peer.weight then
            local whole = peer
            peer = {}
            for key, value in pairs(whole) do
                peer[key] = value
            end
            peer.weight, peer.baseline = weight, math.max(1, math.floor(peer.baseline * part + 0.5))
        end
        subset[#subset + 1] = weight > 0 and peer or nil
        breathe(i, ROWS)
    end
    return subset
end


--- The table as this load balancer serves it: the one that is known with the peers of the subset alone, and `all`.
-- The same while neither table nor health has changed. It is the known one where that does not say who the others
-- are, where there are so few servers, or so many are out of health, that all are used.
-- @param unhealthy id -> anything, for peers that health has taken out
-- @param breathe   called every 0.1 ms or so of work; may yield
function _M:table_of(known, unhealthy, breathe)
    if known == self.known and unhealthy == self.unhealthy then
        return self.served
    end
    local peers, ids, up, total, served = known.peers, {}, 0, 0, known
    local same = #self.ids == #peers
    local about = { servers = #peers, of = #peers, widened_by = 0 } -- what pages show
    for i = 1, #peers do
        local length = length_of(peers[i])
        ids[i], up, total = peers[i].id, up + (length > 0 and 1 or 0), total + length
        same = same and ids[i] == self.ids[i]
    end
    if not same then
        self.order, self.ids = by_hash(ids, breathe), ids
    end
    if known.reporters and not known.zones and self.size < up then
        local place, n = place_of(self.lb, known.reporters)
        local steps = math.ceil(n * self.size / up)
        local before = self.about
        if self.known and peers == self.known.peers and unhealthy == self.unhealthy and place == before.place
           and n == before.balancers then
            about, served = before, setmetatable({ peers = self.served.peers, all = peers }, { __index = known })
        elseif steps < n then
            local parts, more = parts_of(peers, self.order, place / n * total, steps / n * total, unhealthy)
            local subset = held(peers, parts, breathe)
            about = { servers = #subset, of = #peers, widened_by = more, balancers = n, place = place }
            served = setmetatable({ peers = subset, all = peers }, { __index = known })
        end
    end
    self.known, self.unhealthy, self.served, self.about = known, unhealthy, served, about
    return served
end


return _M
