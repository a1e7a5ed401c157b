--- The pickers of lua-resty-balancer, if it is installed: roundrobin, swrr. (Its chash is ours: bounded_hash.)
--
-- These are adapters: the library has nodes (id -> weight), and a pick returns a peer. Its costs are its own: swrr
-- walks all peers at each pick, and up to peers^2 when they change; neither picker builds in slices. The library draws
-- its starts from math.random, which must have a different seed in each worker. Pure.

local no_pause = require("resty.vnswrr").no_pause
local rows = require "resty.vnswrr.rows"

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local _M = {}
local mt = { __index = _M }


local function adapter(name)
    local function new()
        local is_there, library = pcall(require, "resty." .. name)
        if not is_there then
            local err = "picker " .. name .. " needs lua-resty-balancer: opm get openresty/lua-resty-balancer"
                        .. " (or luarocks install lua-resty-balancer)"
            if not string.find(library, "not found", 1, true) then
                err = err .. "; it is there, but: " .. string.match(library, "[^\n]*")
            end
            return nil, err
        end
        return setmetatable({ library = library, balancer = nil, ids = {}, weights = {}, by_id = {}, updates = 0 }, mt)
    end
    return { new = new, library = "lua-resty-balancer" }
end


--- The library's find fails on a table without nodes, so it never gets one.
local function apply(self, nodes)
    if next(nodes) == nil then
        self.balancer = nil
    elseif not self.balancer then
        self.balancer = self.library:new(nodes)
    else
        self.balancer:reinit(nodes)
    end
end


--- Take the peers. The balancer changes only if a weight did. An update that began later, while this one breathed,
-- wins.
function _M:update(peers, breathe)
    breathe = breathe or no_pause
    local update = self.updates + 1
    self.updates = update
    local ids, weights, by_id, nodes = {}, {}, {}, {}
    for i = 1, #peers do
        ids[i], weights[i] = peers[i].id, peers[i].weight
        by_id[ids[i]], nodes[ids[i]] = peers[i], weights[i]
        breathe(i, ROWS_PER_BREATH)
    end
    if self.updates == update then
        if not (rows.same(ids, self.ids) and rows.same(weights, self.weights)) then
            apply(self, nodes)
        end
        self.ids, self.weights, self.by_id = ids, weights, by_id
    end
end


--- Return the next peer; nil if there is none.
function _M:pick(key)
    return self.balancer and self.by_id[self.balancer:find(key)] or nil
end


--- Nothing is built ahead.
function _M.grow()
    return 0
end


return { roundrobin = adapter("roundrobin"), swrr = adapter("swrr") }
