--- A ring of hashes: which of some owners a key belongs to, and who comes behind.
--
-- Each owner has points on a circle of 2^32, at places that follow from its id alone; a key belongs to the
-- first point at or behind its own hash. So one owner that leaves, or comes, moves the keys of its own points
-- and no other.
--
-- Hashes are spread evenly: a point's bucket is its first bits, and with about as many buckets as points a
-- bucket has one or two. So nothing is sorted but what lies in one bucket, a ring is built in O(points), in
-- slices, and a look-up is O(1). Where two points have one hash the owner that was listed first has it, in
-- every worker.
--
-- FNV-1a with the finalizer of MurmurHash3, in doubles and 32-bit operations, whose products stay below 2^51:
-- a ring is the same on every machine. Pure.

local bit = require "bit"
local ffi = require "ffi"

local bxor, lshift, rshift, tobit = bit.bxor, bit.lshift, bit.rshift, bit.tobit
local byte, floor, log, max = string.byte, math.floor, math.log, math.max

local int32_array, uint32_array = ffi.typeof("int32_t[?]"), ffi.typeof("uint32_t[?]")

-- FNV's offset basis; another one for an owner's second hash.
local BASIS, SECOND_BASIS = 0x811c9dc5, 0x2f0b4c47

-- Points between two breaths: some 0.1 ms where LuaJIT has not compiled it yet.
local ROWS = 500

local _M = {}
local mt = { __index = _M }


--- Multiply by high * 2^16 + low, modulo 2^32.
local function times(h, high, low)
    return tobit(h * low + lshift(tobit(h * high), 16))
end


local function fnv(text, basis)
    local h = tobit(basis)
    for i = 1, #text do
        h = bxor(h, byte(text, i))
        h = tobit(h * 0x193 + lshift(h, 24))
    end
    return h
end


--- Each bit of it depends on all of h's.
local function mixed(h)
    h = times(bxor(h, rshift(h, 16)), 0x85eb, 0xca6b)
    h = times(bxor(h, rshift(h, 13)), 0xc2b2, 0xae35)
    return bxor(h, rshift(h, 16)) % 2 ^ 32
end


--- The hash of a key, 0..2^32 - 1.
function _M.hash(key)
    return mixed(fnv(key, BASIS))
end


--- Call put(h, owner) for each point.
local function each_point(ids, counts, breathe, put)
    local n = 0
    for i = 1, #ids do
        local at, step = fnv(ids[i], BASIS), fnv(ids[i], SECOND_BASIS)
        for _ = 1, counts[i] do
            at = tobit(at + step)
            put(mixed(at), i)
            n = n + 1
            breathe(n, ROWS)
        end
    end
end


--- Fill the circle: each point goes to the end of what its bucket has, behind all that are not above it. What
-- lies in the bucket before is not above it.
local function fill(self, breathe)
    local hashes, owners, starts, shift = self.hashes, self.owners, self.starts, self.shift
    each_point(self.ids, self.counts, breathe, function(h, owner)
        local bucket = rshift(h, shift) + 1
        local last = starts[bucket]
        starts[bucket] = last + 1
        while last > 0 and hashes[last - 1] > h do
            hashes[last], owners[last] = hashes[last - 1], owners[last - 1]
            last = last - 1
        end
        hashes[last], owners[last] = h, owner
    end)
end


--- Make a ring.
-- @param ids     of the owners, each once
-- @param counts  how many points each has, 1 or more
-- @param breathe called every 0.1 ms or so
function _M.new(ids, counts, breathe)
    local total = 0
    for i = 1, #counts do
        total = total + counts[i]
    end
    local bits = max(1, floor(log(total) / log(2)))
    local buckets, shift = 2 ^ bits, 32 - bits
    local self = setmetatable({ n = total, shift = shift, ids = ids, counts = counts }, mt)
    -- Zeroing so much memory takes longer than a slice: one after the other.
    local starts = int32_array(buckets + 2)
    breathe()
    self.hashes = uint32_array(total) -- in the order of the circle
    breathe()
    self.owners, self.starts = int32_array(total), starts -- the owner's number; of a bucket, its first place
    breathe()
    each_point(ids, counts, breathe, function(h)
        local counted = rshift(h, shift) + 2
        starts[counted] = starts[counted] + 1
    end)
    -- Where each bucket begins: what is counted two places behind it is summed, and the last is one place behind.
    for bucket = 1, buckets + 1 do
        starts[bucket] = starts[bucket] + starts[bucket - 1]
        breathe(bucket, 10 * ROWS)
    end
    fill(self, breathe)
    return self
end


--- Where a key belongs: 0..n - 1.
function _M:place(key)
    local h, hashes, n = _M.hash(key), self.hashes, self.n
    local place = self.starts[rshift(h, self.shift)]
    while place < n and hashes[place] < h do
        place = place + 1
    end
    return place < n and place or 0
end


return _M
