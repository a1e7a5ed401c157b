local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause


local function ids_of(n)
    local ids, counts = {}, {}
    for i = 1, n do
        ids[i], counts[i] = string.format("server-%05d", i), 100
    end
    return ids, counts
end


describe("a hash", function()
    it("is MurmurHash3's finalizer of FNV-1a, on any machine", function()
        -- Computed by another implementation, in Python's whole numbers.
        assert.equal(2872998923, hash_ring.hash(""))
        assert.equal(444641715, hash_ring.hash("a"))
        assert.equal(528702661, hash_ring.hash("/index.html"))
        assert.equal(519959299, hash_ring.hash("\195\164"))
    end)

    it("spreads keys that differ in one digit evenly: chi squared of 256 boxes", function()
        local boxes, n = {}, 51200
        for i = 1, n do
            local box = math.floor(hash_ring.hash("key-" .. i) / 2 ^ 24)
            boxes[box] = (boxes[box] or 0) + 1
        end
        local chi = 0
        for box = 0, 255 do
            chi = chi + ((boxes[box] or 0) - n / 256) ^ 2 / (n / 256)
        end
        assert.is_true(chi < 255 + 5 * math.sqrt(2 * 255), "it is " .. chi)
    end)
end)


describe("a ring of hashes", function()
    it("has its points in the order of the circle, and each owner's number of them", function()
        for _, n in ipairs({ 1, 2, 3, 17, 300 }) do
            local ids, counts = ids_of(n)
            counts[1] = 1
            local ring, seen = hash_ring.new(ids, counts, no_pause), {}
            assert.equal((n - 1) * 100 + 1, ring.n)
            for place = 0, ring.n - 1 do
                assert.is_true(place == 0 or ring.hashes[place - 1] <= ring.hashes[place])
                local owner = ring.owners[place]
                seen[owner] = (seen[owner] or 0) + 1
            end
            assert.same(counts, seen)
        end
    end)

    it("gives a key the first point at or behind its hash, and the first of all behind the last", function()
        local ring, last = hash_ring.new({ "a", "b" }, { 3, 2 }, no_pause), false
        for i = 1, 2000 do
            local h, first = hash_ring.hash("key-" .. i), 0
            while first < ring.n and ring.hashes[first] < h do
                first = first + 1
            end
            last = last or first == ring.n
            assert.equal(first % ring.n, ring:place("key-" .. i))
        end
        assert.is_true(last)
    end)

    it("is built in slices", function()
        local ids, counts = ids_of(2000)
        local breathe, breaths = counted_breaths()
        hash_ring.new(ids, counts, breathe)
        assert.is_true(breaths() >= 2 * 200000 / 500)
    end)
end)
