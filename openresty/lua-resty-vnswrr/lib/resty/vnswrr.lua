--- Virtual-node smooth weighted round robin.
--
-- Smooth weighted round robin (SWRR, nginx's own) costs O(peers) a pick, and
-- its sequence repeats every sum(weight)/gcd picks. So the cycle is unrolled
-- into a ring of slots (the virtual nodes) and a pick is O(1): the next slot.
--
-- Where a ring starts. Workers that all start at the front of the cycle, and
-- start again at every update, would only ever serve the heavy peers. With a
-- `random` the start is uniform over the *whole cycle*, so the peer in the
-- first slot, and in the n-th, is a peer with probability weight/total: shares
-- are right in expectation from the first pick after an update on. Without
-- one the start is the front of the cycle: nginx's sequence.
--
-- Which order. Starting in the middle needs the state in the middle, and SWRR
-- has no closed form for it: the picks before it must be played. They are, as
-- long as a whole cycle costs at most EXACT_WORK steps (peers x slots). Above
-- that the split order takes SWRR's place, whose state at any slot *is* a
-- formula, whose step costs log(peers) and not peers, and which is as smooth
-- (split.lua gives the bound). Both go on for ever, cycle after cycle.
--
-- The ring begins at the drawn slot and grows: by `grow(n)`, to be called off
-- the request path, or by a few slots when picks run ahead of that.
--
-- An update builds all of the new ring beside the old one, which goes on
-- serving, and then changes them at once. With a `breathe`, which may let
-- requests run in between, 10,000 peers are no long pause. Calls take effect
-- in the order in which they *began*: each takes a number, and a build that
-- finds, when done, that the number has moved on is thrown away.
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

-- 256 kB a ring. A longer cycle is never held whole: the ring is then a window
-- that is written anew as picks go through it.
local MAX_SLOTS = 65536

-- What one pick may have to wait for when it outran `grow`: 64 slots cost
-- 64 us at worst (1000 equal peers in SWRR order).
local SLICE = 64

-- Not a Lua table: that one, as it grows, is copied whole at every doubling
-- (0.9 ms on the way to 200,000 slots), and walked whole by every turn of the
-- garbage collector (0.2 ms). An array has neither.
local array = ffi.typeof("int32_t[?]")

local _M = { _VERSION = "0.1.0" }
local mt = { __index = _M }


--- A `breathe` for work that need not pause.
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
end


--- Make the ring of these rows and put it in the old one's place, unless a later call came meanwhile.
-- The old ring goes on where it is if nothing really changed.
local function build(self, all_ids, all_weights, breathe)
    local change = self.change
    local ids, weights, total, gcd = rows.reduced(all_ids, all_weights, breathe)
    local order, slots, capacity, built = nil, nil, math.min(total, MAX_SLOTS), 0
    if change ~= self.change then
        return false
    end
    self.gcd = gcd
    if rows.same(ids, self.ids) and rows.same(weights, self.weights) then
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


--- The map of all nodes; after `reinit_sorted` it is made when first asked for.
local function nodes_of(self)
    if not self.nodes then
        self.nodes = {}
        for i = 1, #self.listed_ids do
            self.nodes[self.listed_ids[i]] = self.listed_weights[i]
        end
    end
    return self.nodes
end


--- Take up what set, incr, decr and delete have changed.
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
        gcd = 0, -- what all weights are multiples of
        limit = 0, -- slots that find() may use without asking: 0 when stale
        stale = false,
        change = 0, -- the number of the last call that changed nodes
        random = options.random,
        max_init = math.max(1, options.max_init or SLICE),
    }, mt)
    self:reinit(nodes, options.breathe)
    return self
end


--- Take a new set of nodes. What changes nothing does not restart the ring.
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


--- The same from two lists whose ids rise (numbers by value, strings by bytes): nothing to sort.
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
-- 1000 slots are at most about 1 ms in either order.
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
