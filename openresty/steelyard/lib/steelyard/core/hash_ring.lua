--- A ring of hashes: the owner of a key, and the owners behind it.
--
-- Each owner has points on a circle of 2^32, at places derived from its id alone. A key belongs to the first point at
-- or behind its own hash. So an owner that leaves or comes moves the keys of its own points alone.
--
-- Hashes are spread evenly. A point's bucket is its first bits, and with about as many buckets as points, a bucket has
-- one or two. So only the content of a bucket is sorted, a ring is built in O(points), in slices, and a look-up is
-- O(1). If two points have one hash, it belongs to the owner listed first, in every worker.
--
-- The hash is FNV-1a with the finalizer of MurmurHash3, in doubles and 32-bit operations. Products stay below 2^51, so
-- a ring is the same on every machine. Pure.

local bit = require "bit"
local ffi = require "ffi"

local bxor, lshift, rshift, tobit = bit.bxor, bit.lshift, bit.rshift, bit.tobit
local byte, floor, log, max = string.byte, math.floor, math.log, math.max

local int32_array, uint32_array = ffi.typeof("int32_t[?]"), ffi.typeof("uint32_t[?]")

-- FNV's offset basis, and another one for an owner's second hash.
local BASIS, SECOND_BASIS = 0x811c9dc5, 0x2f0b4c47

-- Points between two calls of breathe(): some 0.1 ms before LuaJIT has compiled the loop.
local POINTS_PER_BREATH = 500

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


--- Mix a hash, so that each bit of the result depends on all bits of h.
local function mixed(h)
    h = times(bxor(h, rshift(h, 16)), 0x85eb, 0xca6b)
    h = times(bxor(h, rshift(h, 13)), 0xc2b2, 0xae35)
    return bxor(h, rshift(h, 16)) % 2 ^ 32
end


--- Return the hash of a key, 0..2^32 - 1.
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
            breathe(n, POINTS_PER_BREATH)
        end
    end
end


--- Fill the circle: each point goes to the end of its bucket, behind all points not above it. No point of an earlier
-- bucket is above it.
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
-- @param counts  points of each owner, at least 1
-- @param breathe called every 0.1 ms or so
function _M.new(ids, counts, breathe)
    local total = 0
    for i = 1, #counts do
        total = total + counts[i]
    end
    local bits = max(1, floor(log(total) / log(2)))
    local buckets, shift = 2 ^ bits, 32 - bits
    local self = setmetatable({ n = total, shift = shift, ids = ids, counts = counts }, mt)
    -- Zeroing this much memory takes longer than a slice: one array after the other.
    local starts = int32_array(buckets + 2)
    breathe()
    self.hashes = uint32_array(total) -- in the order of the circle
    breathe()
    -- The owner of each point, and the first place of each bucket.
    self.owners, self.starts = int32_array(total), starts
    breathe()
    each_point(ids, counts, breathe, function(h)
        local counted = rshift(h, shift) + 2
        starts[counted] = starts[counted] + 1
    end)
    -- The start of each bucket. Counts are two places behind their bucket; while the circle is filled, their sums move
    -- one place back.
    for bucket = 1, buckets + 1 do
        starts[bucket] = starts[bucket] + starts[bucket - 1]
        breathe(bucket, 10 * POINTS_PER_BREATH)
    end
    fill(self, breathe)
    return self
end


--- Return the place of a key: 0..n - 1.
function _M:place(key)
    local h, hashes, n = _M.hash(key), self.hashes, self.n
    local place = self.starts[rshift(h, self.shift)]
    while place < n and hashes[place] < h do
        place = place + 1
    end
    return place < n and place or 0
end


return _M
