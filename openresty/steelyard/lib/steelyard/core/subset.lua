--- A subset: the servers to which one of many load balancers keeps connections.
--
-- Servers are on a ring in the order of a hash of their ids. Each has an arc as long as its baseline weight, so no
-- tick of a law moves them. Load balancers begin evenly around the ring, in the order of a hash of their names. On a
-- ring of length 1, the load balancer at place i of n has
--
--   [i/n, (i + m)/n)      m = ceil(n size / servers)
--
-- So each point belongs to m of them, and all arcs weigh the same. For a server at an end, only the part within the
-- arc counts, also of its weight. Over all load balancers each server gets its share, exactly if weights are
-- proportional to baselines. Only `up` servers have a length. Others belong to the load balancer of their place, and
-- backups to all.
--
-- If less than HEALTHY_SHARE of the arc is healthy, it is extended behind its end until that share is.
--
-- With weights by zone (core/zones) all servers are used. No table lists the load balancers of a zone, and the servers
-- of an arc would depend on their number.
--
-- A server that comes or goes moves each end by less than a server, a load balancer by less than an n-th. The weight
-- tables name the load balancers. Figures: docs/research/scaling.md. Pure.

local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause
local sort = require "resty.vnswrr.sort"

-- With this share, the healthy servers have a third more than their part: at a load of three quarters they are full.
local HEALTHY_SHARE = 0.75

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = {}
local mt = { __index = _M }


--- Make the subset of an upstream without a table.
-- @param size about how many servers it has, or some more
-- @param lb   this load balancer's name
function _M.new(size, lb)
    return setmetatable({ size = size, lb = lb, ids = {}, known = nil, served = nil, about = nil }, mt)
end


--- Return the numbers of some names in the order of their hashes; equal hashes keep the order of the list.
local function by_hash(names, breathe)
    local hashes, numbers = {}, {}
    for i = 1, #names do
        hashes[i], numbers[i] = hash_ring.hash(names[i]), i
    end
    local _, order = sort.sorted(hashes, numbers, breathe)
    return order
end


--- Return this load balancer's place among those in the table, from 0, and their number. The table will soon name this
-- one, if it does not yet.
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


--- Return the part of each peer within an arc, by its number, and how many further peers were added for unhealthy ones.
local function parts_of(peers, order, from, width, unhealthy)
    local parts, k, first, left, least, more = {}, #peers, 1, width, HEALTHY_SHARE * width, 0
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


--- Return the peers with a part within, with that part of their weights, in id order. The controller's mean weight is
-- 20: a part below half of 1 is left out.
local function peers_within(peers, parts, breathe)
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
        breathe(i, ROWS_PER_BREATH)
    end
    return subset
end


--- Return the table as this load balancer serves it: the known one, with the peers of the subset alone, and `all`. It
-- is the same table while neither table nor health changes. It is the known table itself if that does not name the
-- load balancers, or all servers are used because they are few or many are unhealthy.
-- @param unhealthy id -> anything, for peers taken out by health
-- @param breathe   called every 0.1 ms or so of work; may yield
function _M:table_of(known, unhealthy, breathe)
    if known == self.known and unhealthy == self.unhealthy then
        return self.served
    end
    local peers, ids, up, total, served = known.peers, {}, 0, 0, known
    local same = #self.ids == #peers
    local about = { servers = #peers, of = #peers, widened_by = 0 } -- for the pages
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
            local subset = peers_within(peers, parts, breathe)
            about = { servers = #subset, of = #peers, widened_by = more, balancers = n, place = place }
            served = setmetatable({ peers = subset, all = peers }, { __index = known })
        end
    end
    self.known, self.unhealthy, self.served, self.about = known, unhealthy, served, about
    return served
end


return _M
