--- The pickers of lua-resty-balancer, where it is installed: roundrobin, swrr, chash.
--
-- Adapters: that library knows nodes (id -> weight), we hand out peers. What
-- it costs is its own: swrr walks all peers at each pick and up to peers^2 when
-- they change; none of the three builds in slices. It draws its starts from
-- math.random, which must be seeded differently in each worker.
--
-- chash takes 160 points of memory for each unit of weight and sorts them all
-- at once (11 ms for 100 peers, 45 ms for 2000), so weights come to it in a few
-- steps about their mean. The steps depend on the table alone, so that every
-- worker and every load balancer sends a key to the same peer. Where few peers
-- changed, only their points do. Pure.

local no_pause = require("resty.vnswrr").no_pause

-- Rows between two calls of breathe.
local ROWS = 100

-- Steps to the mean weight, a peer at least 1. Twice as many cost twice the
-- memory and the sort; 160 points put a peer's share 8 % off by themselves.
local STEPS, STEPS_OF_MANY, MANY = 8, 2, 250

-- A change of one peer costs about a tenth of a sort of all.
local FEW = 4

-- Different keys drawn where a request has none: more than there are points.
local ANYWHERE = 2 ^ 31

local _M = {}
local mt = { __index = _M }


local function whole(peers, breathe)
    local nodes = {}
    for i = 1, #peers do
        nodes[peers[i].id] = peers[i].weight
        if i % ROWS == 0 then
            breathe()
        end
    end
    return nodes
end


local function in_steps(peers, breathe)
    local total = 0
    for i = 1, #peers do
        total = total + peers[i].weight
    end
    local unit = total / #peers / (#peers > MANY and STEPS_OF_MANY or STEPS)
    local nodes = {}
    for i = 1, #peers do
        nodes[peers[i].id] = math.max(1, math.floor(peers[i].weight / unit + 0.5))
        if i % ROWS == 0 then
            breathe()
        end
    end
    return nodes
end


--- The nodes that differ: id -> new weight (0: gone), and how many they are.
local function differences(old, new)
    local changed, count = {}, 0
    for id, weight in pairs(new) do
        if old[id] ~= weight then
            changed[id], count = weight, count + 1
        end
    end
    for id in pairs(old) do
        if not new[id] then
            changed[id], count = 0, count + 1
        end
    end
    return changed, count
end


local function adapter(name, options)
    local function new(context)
        local is_there, library = pcall(require, "resty." .. name)
        if not is_there then
            local err = "picker " .. name .. " needs lua-resty-balancer: opm get openresty/lua-resty-balancer"
                        .. " (or luarocks install lua-resty-balancer)"
            if not string.find(library, "not found", 1, true) then
                err = err .. "; it is there, but: " .. string.match(library, "[^\n]*")
            end
            return nil, err
        end
        return setmetatable({
            library = library, balancer = nil, nodes = {}, by_id = {}, updates = 0,
            nodes_of = options.nodes_of, few = options.few, wants_key = options.wants_key,
            random = context.random,
        }, mt)
    end
    return { new = new, library = "lua-resty-balancer" }
end


--- The library's own find takes a table without nodes badly, so it gets none.
local function apply(self, nodes)
    local changed, count = differences(self.nodes, nodes)
    if count == 0 then
        return
    end
    self.nodes = nodes
    if next(nodes) == nil then
        self.balancer = nil
    elseif not self.balancer then
        self.balancer = self.library:new(nodes)
    elseif count <= self.few then
        for id, weight in pairs(changed) do
            self.balancer:set(id, weight)
        end
    else
        self.balancer:reinit(nodes)
    end
end


--- Take the peers; what changes no weight leaves the balancer as it is. An
-- update that began later, while this one breathed, wins.
function _M:update(peers, breathe)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local by_id = {}
    for i = 1, #peers do
        by_id[peers[i].id] = peers[i]
        if i % ROWS == 0 then
            breathe()
        end
    end
    local nodes = self.nodes_of(peers, breathe)
    if self.updates == update then
        apply(self, nodes)
        self.by_id = by_id
    end
end


--- The next peer, or the key's; nil when there is none. A request without a
-- key (it has no such cookie) goes anywhere, or all of them would go to one peer.
-- @return and where it stands on the ring, of a picker that hashes
function _M:pick(key)
    if self.wants_key and (not key or key == "") then
        key = tostring(self.random(ANYWHERE))
    end
    if not self.balancer then
        return nil
    end
    local id, place = self.balancer:find(key)
    return self.by_id[id], self.wants_key and place or nil
end


--- The peer behind a place on the ring, and its place. It may be the same peer.
function _M:following(place)
    local id, behind = self.balancer:next(place)
    return self.by_id[id], behind
end


--- Nothing is built ahead.
function _M.grow()
    return 0
end


return {
    roundrobin = adapter("roundrobin", { nodes_of = whole, few = 0 }),
    swrr = adapter("swrr", { nodes_of = whole, few = 0 }),
    chash = adapter("chash", { nodes_of = in_steps, few = FEW, wants_key = true }),
}
