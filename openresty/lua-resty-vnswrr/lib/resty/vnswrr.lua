--- Virtual-node smooth weighted round robin.
--
-- Smooth weighted round robin (SWRR, nginx's own) costs O(peers) a pick, and
-- its sequence repeats every sum(weight)/gcd picks. So the cycle is unrolled
-- into a ring of slots (the virtual nodes) and a pick is O(1): the next slot.
--
-- Start of a ring. If all workers started at the front of the cycle, and again
-- at every update, they would only ever serve the heavy peers. With a `random`
-- the start is uniform over the *whole cycle*. Each slot then has a peer with
-- probability weight/total, so shares are right in expectation from the first
-- pick after an update. Without `random` the start is the front of the cycle:
-- nginx's sequence.
--
-- Order. A start in the middle needs the state in the middle. SWRR has no closed
-- form for it, so the picks before must be played. They are, if a whole cycle
-- costs at most EXACT_WORK steps (peers x slots). Above that the split order
-- replaces SWRR. Its state at any slot *is* a formula, a step costs log(peers),
-- and it is as smooth (split.lua has the bound). Both go on cycle after cycle.
--
-- The ring begins at the drawn slot and grows: by `grow(n)`, called off the
-- request path, or by a few slots when picks run ahead of that.
--
-- An update builds the whole new ring beside the old one, which goes on
-- serving, and then swaps them. A `breathe` may let requests run in between, so
-- 10,000 peers cause no long pause. Calls take effect in the order in which they
-- *began*: each takes a number. A build is thrown away if the number has changed
-- when it is done.
--
-- Pure: no ngx.*, no clock; randomness is passed in.
--
--   local ring = require("resty.vnswrr"):new({ a = 5, b = 1, c = 1 })
--   ring:find()   -- a a b a c a a, and again
--
-- The node API is lua-resty-balancer's. A caller's bug raises an error.

local ffi = require "ffi"
local rows = require "resty.vnswrr.rows"
local sort = require "resty.vnswrr.sort"
local split = require "resty.vnswrr.split"
local swrr = require "resty.vnswrr.swrr"

-- About 1 ms of LuaJIT. The product's weights sum to max(1000, 20 x peers), so
-- this is SWRR's own order up to 223 peers.
local EXACT_WORK = 1000000

-- 256 kB a ring. For a longer cycle the ring is a window, which is rewritten as
-- picks go through it.
local MAX_SLOTS = 65536

-- The most slots that one pick builds when it outruns `grow`: 64 us at worst
-- (1000 equal peers in SWRR order).
local SLICE = 64

-- Not a Lua table. A growing table is copied at every doubling (0.9 ms on the
-- way to 200,000 slots), and every turn of the garbage collector walks it
-- (0.2 ms). An array has neither cost.
local array = ffi.typeof("int32_t[?]")

local _M = { _VERSION = "0.1.0" }
local mt = { __index = _M }


--- A `breathe` that does not pause.
function _M.no_pause()
end


local no_pause = _M.no_pause


local function fill(order, slots, from, upto)
    for slot = from, upto do
        slots[slot] = order:next()
    end
end


--- Append up to n slots.
local function unroll(self, n)
    local upto = math.min(self.built + n, self.capacity)
    fill(self.order, self.slots, self.built + 1, upto)
    self.built, self.limit = upto, upto
    if upto == self.total then
        self.order = nil -- a whole cycle is in the ring: the state behind it takes as much memory
    end
end


--- Make the ring of these rows and replace the old one, unless a later call came meanwhile.
-- If nothing changed, the old ring goes on from its place.
local function build(self, all_ids, all_weights, breathe)
    local change = self.change
    local ids, weights, total, gcd = rows.reduced(all_ids, all_weights, breathe)
    local order, slots, capacity, built = nil, nil, math.min(total, MAX_SLOTS), 0
    if change ~= self.change then
        return false
    end
    self.gcd = gcd
    if rows.same(ids, self.ids) and rows.same(weights, self.weights) then
        self.ids, self.weights = ids, weights -- they may be the listed ones, which are kept anyway
        self.stale, self.limit = false, self.built
        return true
    end
    if total > 0 then
        local start = self.random and self.random(total) - 1 or 0
        local kind = #ids * total <= EXACT_WORK and swrr or split
        order = kind.new(weights, total, start, breathe)
        slots = array(capacity + 1)
        while built < math.min(self.max_init, capacity) do
            local upto = math.min(built + SLICE, self.max_init, capacity)
            fill(order, slots, built + 1, upto)
            built = upto
            breathe()
        end
    end
    if change ~= self.change then
        return false
    end
    self.ids, self.weights, self.total, self.order = ids, weights, total, order
    self.slots, self.capacity, self.built, self.position = slots, capacity, built, 0
    self.stale, self.limit = false, built
    return true
end


--- The map of all nodes; after `reinit_sorted` it is made on first use.
local function nodes_of(self)
    if not self.nodes then
        self.nodes = {}
        for i = 1, #self.listed_ids do
            self.nodes[self.listed_ids[i]] = self.listed_weights[i]
        end
    end
    return self.nodes
end


--- Apply the changes of set, incr, decr and delete.
local function refresh(self)
    local _, ids, weights = rows.from_nodes(nodes_of(self))
    ids, weights = sort.sorted(ids, weights, no_pause)
    build(self, ids, weights, no_pause)
end


--- Make a ring.
-- @param nodes   id -> weight, numbers; weight 0 is known but not picked
-- @param options random: f(n) -> 1..n, uniform (default: start at the front);
--                max_init: slots to build at once (default 64);
--                breathe: for the building, as in reinit. Or true, for { random = math.random }
function _M.new(_, nodes, options)
    if type(nodes) ~= "table" then
        error("nodes must be a table of id = weight; write it as vnswrr:new({ a = 1 }), with a colon", 2)
    end
    if options == true then
        options = { random = math.random } -- lua-resty-balancer's "random start"
    end
    options = options or {}
    if type(options) ~= "table" then
        error("options must be a table; write it as { random = math.random }", 2)
    end
    local self = setmetatable({
        nodes = {}, ids = {}, weights = {}, total = 0,
        order = nil, slots = nil, capacity = 0, built = 0, position = 0,
        gcd = 0, -- all weights are multiples of it
        limit = 0, -- slots that find() may use without a check: 0 when stale
        stale = false,
        change = 0, -- the number of the last call that changed nodes
        random = options.random,
        max_init = math.max(1, options.max_init or SLICE),
    }, mt)
    self:reinit(nodes, options.breathe)
    return self
end


--- Take a new set of nodes. Equal nodes do not restart the ring.
-- The nodes are copied before the first breath.
-- @param breathe called every 0.1 ms or so; it may yield. Default: no pauses
-- @return        false if a later call made the ring of other nodes meanwhile
function _M:reinit(nodes, breathe)
    breathe = breathe or no_pause
    local copy, ids, weights = rows.from_nodes(nodes)
    self.nodes, self.change = copy, self.change + 1
    local change = self.change
    ids, weights = sort.sorted(ids, weights, breathe)
    return change == self.change and build(self, ids, weights, breathe)
end


--- The same from two lists with rising ids (numbers by value, strings by bytes), which need no sorting.
function _M:reinit_sorted(ids, weights, breathe)
    ids, weights = rows.from_lists(ids, weights)
    self.nodes, self.listed_ids, self.listed_weights = nil, ids, weights
    self.change = self.change + 1
    return build(self, ids, weights, breathe or no_pause)
end


local function put(self, id, weight)
    local nodes = nodes_of(self)
    if nodes[id] ~= weight then
        nodes[id] = weight
        self.change = self.change + 1
        self.stale, self.limit = true, 0
    end
end


--- Set a node's weight; 0, or none, takes it out until it is set again.
-- The next pick builds the ring anew, at once: many changes are one reinit.
function _M:set(id, weight)
    if weight == nil then
        weight = 0
    end
    put(self, id, rows.checked(id, weight))
end


--- Raise a node's weight (by 1); an unknown node begins at 0.
function _M:incr(id, weight)
    put(self, id, rows.checked(id, (nodes_of(self)[id] or 0) + rows.checked(id, weight or 1)))
end


--- Lower a node's weight (by 1), to 0 at most; an unknown node stays unknown.
function _M:decr(id, weight)
    local less, known = rows.checked(id, weight or 1), nodes_of(self)[id]
    if known then
        put(self, id, math.max(0, known - less))
    end
end


--- Forget a node.
function _M:delete(id)
    put(self, id, nil)
end


--- Build up to n slots more; return how many of the ring are still missing.
-- 1000 slots take at most about 1 ms in either order.
function _M:grow(n)
    if self.stale then
        refresh(self)
    end
    unroll(self, n)
    return self.capacity - self.built
end


local function beyond(self)
    if self.stale then
        refresh(self)
    end
    if self.total == 0 then
        return nil
    end
    if self.position >= self.built then
        if self.built == self.capacity then
            self.position = 0
            if self.capacity < self.total then
                self.built = 0 -- a window moves on; a whole cycle just begins again
            end
        end
        if self.position >= self.built then
            unroll(self, SLICE)
        end
    end
    local position = self.position + 1
    self.position = position
    return self.ids[self.slots[position]]
end


--- The next node's id; nil when no node has a weight.
function _M:find()
    local position = self.position + 1
    if position > self.limit then
        return beyond(self)
    end
    self.position = position
    return self.ids[self.slots[position]]
end


_M.next = _M.find

return _M
