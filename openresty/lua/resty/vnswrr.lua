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
-- Starting in the middle needs the state in the middle, and SWRR has no closed
-- form for it: the picks before it must be played. They are, as long as a
-- whole cycle costs at most EXACT_WORK steps (peers x slots). Above that an
-- earliest-deadline order takes SWRR's place, whose state at any slot *is* a
-- formula. Both orders go on for ever, cycle after cycle.
--
-- The ring therefore begins at the drawn slot and grows in slices: `grow(n)`,
-- to be called off the request path, or a slice at a time when picks run
-- ahead of it. Pure: no ngx.*, no clock; randomness is passed in.
--
--   local ring = require("resty.vnswrr"):new({ a = 5, b = 1, c = 1 })
--   ring:find()   -- a a b a c a a, and again
--
-- The node API is lua-resty-balancer's. A caller's bug raises an error.

local deadline = require "resty.vnswrr.deadline"
local swrr = require "resty.vnswrr.swrr"

-- About 1 ms of LuaJIT. The product's weights sum to max(1000, 20 x peers), so
-- this is SWRR's own order up to 223 peers.
local EXACT_WORK = 1000000

-- 2 MB a ring. A longer cycle is never held whole: the ring is then a window.
local MAX_SLOTS = 262144

-- What one pick may have to wait for when it outran `grow`: 64 slots cost
-- 64 us at worst (1000 equal peers in SWRR order).
local SLICE = 64

local _M = { _VERSION = "0.1.0" }
local mt = { __index = _M }


local function checked_weight(id, weight)
    if type(weight) ~= "number" or weight < 0 or weight ~= math.floor(weight) or weight > 2 ^ 31 then
        error("the weight of " .. tostring(id) .. " must be a whole number within 0..2^31, it is "
              .. tostring(weight), 3)
    end
    return weight
end


local function gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return a
end


local function by_id(a, b)
    return tostring(a) < tostring(b)
end


--- The ids of weight > 0 in id order (workers must agree on ties, and `pairs`
-- does not), and their weights divided by the gcd.
local function reduced(nodes)
    local ids, weights, total, divisor = {}, {}, 0, 0
    for id, weight in pairs(nodes) do
        if weight > 0 then
            ids[#ids + 1] = id
            divisor = gcd(weight, divisor)
        end
    end
    table.sort(ids, by_id)
    for i = 1, #ids do
        weights[i] = nodes[ids[i]] / divisor
        total = total + weights[i]
    end
    return ids, weights, total
end


local function same(left, right)
    if #left ~= #right then
        return false
    end
    for i = 1, #left do
        if left[i] ~= right[i] then
            return false
        end
    end
    return true
end


--- Append up to n slots.
local function unroll(self, n)
    local upto = math.min(self.built + n, self.capacity)
    if upto > self.built then
        self.order:fill(self.ring, self.ids, self.built + 1, upto)
        self.built = upto
    end
    self.limit = self.built
end


--- Take up changed weights; the ring goes on where it is if nothing really changed.
local function refresh(self)
    self.stale = false
    local ids, weights, total = reduced(self.nodes)
    if same(ids, self.ids) and same(weights, self.weights) then
        self.limit = self.built
        return
    end
    self.ids, self.weights, self.total = ids, weights, total
    self.capacity = math.min(total, MAX_SLOTS)
    self.ring, self.built, self.position, self.limit = {}, 0, 0, 0
    if total == 0 then
        return
    end
    local start = self.random and self.random(total) - 1 or 0
    local kind = #ids * total <= EXACT_WORK and swrr or deadline
    self.order = kind.new(weights, total, start)
    unroll(self, self.max_init)
end


--- Make a ring.
-- @param nodes   id -> weight, whole numbers; weight 0 is known but not picked
-- @param options random: f(n) -> 1..n, uniform (default: start at the front);
--                max_init: slots to build at once (default 64)
function _M.new(_, nodes, options)
    options = options or {}
    local self = setmetatable({
        nodes = {}, ids = {}, weights = {}, total = 0,
        ring = {}, capacity = 0, built = 0, position = 0,
        limit = 0, -- slots that find() may use without asking: 0 when stale
        random = options.random,
        max_init = math.max(1, options.max_init or SLICE),
    }, mt)
    self:reinit(nodes)
    return self
end


--- Take a new set of nodes. What changes nothing does not restart the ring.
function _M:reinit(nodes)
    local copy = {}
    for id, weight in pairs(nodes) do
        copy[id] = checked_weight(id, weight)
    end
    self.nodes = copy
    refresh(self)
end


--- Set a node's weight; 0 takes it out until it is set again.
function _M:set(id, weight)
    weight = checked_weight(id, weight)
    if self.nodes[id] ~= weight then
        self.nodes[id] = weight
        self.stale, self.limit = true, 0
    end
end


--- Raise a node's weight (by 1); an unknown node begins at 0.
function _M:incr(id, weight)
    self:set(id, (self.nodes[id] or 0) + checked_weight(id, weight or 1))
end


--- Lower a node's weight (by 1), to 0 at most.
function _M:decr(id, weight)
    self:set(id, math.max(0, (self.nodes[id] or 0) - checked_weight(id, weight or 1)))
end


--- Forget a node.
function _M:delete(id)
    if self.nodes[id] then
        self.nodes[id] = nil
        self.stale, self.limit = true, 0
    end
end


--- Build up to n slots more; return how many of the cycle are still missing.
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
    if self.total == 0 then
        return nil
    end
    local position = self.position + 1
    self.position = position
    return self.ring[position]
end


--- The next node's id; nil when no node has a weight.
function _M:find()
    local position = self.position + 1
    if position > self.limit then
        return beyond(self)
    end
    self.position = position
    return self.ring[position]
end


_M.next = _M.find

return _M
