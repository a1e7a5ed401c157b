local vnswrr = require "resty.vnswrr"

local function sequence(ring, n)
    local picks = {}
    for i = 1, n do
        picks[i] = ring:find()
    end
    return table.concat(picks, " ")
end


local function counts(ring, n)
    local seen = {}
    for _ = 1, n do
        local id = ring:find()
        seen[id] = (seen[id] or 0) + 1
    end
    return seen
end


--- A `random` that returns 1, 2, 3, ... and so visits every start of a cycle.
local function every_start()
    local last = 0
    return function(n)
        last = last % n + 1
        return last
    end
end


describe("resty.vnswrr runs on LuaJIT", function()
    it("because that is what nginx runs", function()
        assert.truthy(_G.jit and _G.jit.version)
    end)
end)


describe("the order from a fresh start", function()
    it("is nginx's for 5, 1, 1", function()
        assert.equal("a a b a c a a a a b a c a a", sequence(vnswrr:new({ a = 5, b = 1, c = 1 }), 14))
    end)

    it("is nginx's for 4, 2, 1", function()
        assert.equal("a b a c a b a", sequence(vnswrr:new({ a = 4, b = 2, c = 1 }), 7))
    end)

    it("is the same for weights with a common divisor", function()
        local ring = vnswrr:new({ a = 500, b = 100, c = 100 })
        assert.equal("a a b a c a a", sequence(ring, 7))
        assert.equal(7, ring.total)
    end)

    it("breaks ties by id, however the table was filled", function()
        local forwards, backwards = {}, {}
        for i = 1, 50 do
            forwards["s" .. i] = 1
            backwards["s" .. (51 - i)] = 1
        end
        assert.equal(sequence(vnswrr:new(forwards), 100), sequence(vnswrr:new(backwards), 100))
    end)

    it("repeats after a whole cycle, also when unrolled slot by slot", function()
        local slow = vnswrr:new({ a = 7, b = 5, c = 3 }, { max_init = 1 })
        local cycle = sequence(slow, 15)
        assert.equal(cycle, sequence(slow, 15))
        assert.equal(cycle, sequence(vnswrr:new({ a = 7, b = 5, c = 3 }), 15))
    end)
end)


describe("shares over a whole cycle", function()
    it("are exactly the weights from every start", function()
        local random = every_start()
        for _ = 1, 20 do
            assert.same({ a = 9, b = 7, c = 4 }, counts(vnswrr:new({ a = 9, b = 7, c = 4 }, { random = random }), 20))
        end
    end)

    it("are exactly the weights in the deadline order too, cycle after cycle", function()
        local nodes, total = {}, 0
        for i = 1, 500 do
            nodes["s" .. i] = i % 37 + 1
            total = total + nodes["s" .. i]
        end
        local ring = vnswrr:new(nodes, { random = function(n) return math.floor(n / 3) end })
        assert.is_true(500 * total > 1000000) -- or SWRR would be in use
        assert.same(nodes, counts(ring, total))
        assert.same(nodes, counts(ring, total))
    end)
end)


describe("shares right after an update", function()
    local WEIGHTS = { a = 100, b = 90, c = 10, d = 5, e = 5 }

    for _, picks in ipairs({ 1, 3, 10 }) do
        it("are exact over all starts of the cycle, with " .. picks .. " picks each", function()
            local random, seen = every_start(), {}
            for _ = 1, 42 do -- the cycle of 20, 18, 2, 1, 1
                for id, n in pairs(counts(vnswrr:new(WEIGHTS, { random = random }), picks)) do
                    seen[id] = (seen[id] or 0) + n
                end
            end
            assert.same({ a = 20 * picks, b = 18 * picks, c = 2 * picks, d = picks, e = picks }, seen)
        end)

        it("are within 1 % over many rebuilds, with " .. picks .. " picks each", function()
            math.randomseed(20260921)
            local ring, seen = vnswrr:new({}, { random = math.random }), {}
            local rebuilds = 40000
            for _ = 1, rebuilds do
                ring:reinit({ z = 1 }) -- what changes nothing would not restart the ring
                ring:reinit(WEIGHTS)
                for id, n in pairs(counts(ring, picks)) do
                    seen[id] = (seen[id] or 0) + n
                end
            end
            for id, weight in pairs(WEIGHTS) do
                local share = seen[id] / (rebuilds * picks)
                assert.is_true(math.abs(share - weight / 210) < 0.01, id .. " has " .. share)
            end
        end)
    end

    it("are exact over all starts in the deadline order", function()
        local deadline = require "resty.vnswrr.deadline"
        local weights, ids, total = { 20, 18, 2, 1, 1 }, { 1, 2, 3, 4, 5 }, 42
        for _, picks in ipairs({ 1, 3, 10 }) do
            local seen = { 0, 0, 0, 0, 0 }
            for start = 0, total - 1 do
                local ring = {}
                deadline.new(weights, total, start):fill(ring, ids, 1, picks)
                for i = 1, picks do
                    seen[ring[i]] = seen[ring[i]] + 1
                end
            end
            for i = 1, 5 do
                assert.equal(weights[i] * picks, seen[i])
            end
        end
    end)
end)


describe("the deadline order", function()
    --- The largest |picks so far - due so far| of any peer.
    local function unevenness(kind, weights)
        local total, ids, seen = 0, {}, {}
        for i = 1, #weights do
            total, ids[i], seen[i] = total + weights[i], i, 0
        end
        local ring, most = {}, 0
        require("resty.vnswrr." .. kind).new(weights, total, 0):fill(ring, ids, 1, total)
        for slot = 1, total do
            seen[ring[slot]] = seen[ring[slot]] + 1
            for i = 1, #weights do
                most = math.max(most, math.abs(seen[i] - slot * weights[i] / total))
            end
        end
        return most
    end

    local one_heavy, distinct, mixed = { 300 }, {}, { 200, 200 }
    for i = 1, 300 do
        one_heavy[i + 1] = 1
        mixed[i + 2] = i % 7 + 1
    end
    for i = 1, 120 do
        distinct[i] = i
    end

    for name, weights in pairs({ one_heavy = one_heavy, distinct = distinct, mixed = mixed }) do
        it("is as smooth as SWRR to within one request: " .. name, function()
            assert.is_true(unevenness("deadline", weights) < unevenness("swrr", weights) + 1)
        end)
    end

    it("is one permutation, wherever it is entered", function()
        local deadline, weights, ids = require "resty.vnswrr.deadline", { 5, 4, 3, 2, 1 }, { 1, 2, 3, 4, 5 }
        local whole, seen = {}, {}
        deadline.new(weights, 15, 0):fill(whole, ids, 1, 30)
        local text = table.concat(whole)
        for start = 0, 14 do
            local ring = {}
            deadline.new(weights, 15, start):fill(ring, ids, 1, 15)
            local at = string.find(text, table.concat(ring), 1, true)
            assert.truthy(at)
            seen[at] = true
        end
        assert.equal(15, #seen)
    end)
end)


describe("an update", function()
    it("that changes nothing does not restart the ring", function()
        local ring = vnswrr:new({ a = 5, b = 1, c = 1 })
        assert.equal("a a b", sequence(ring, 3))
        ring:reinit({ a = 5, b = 1, c = 1 })
        assert.equal("a c", sequence(ring, 2))
        ring:set("b", 1)
        ring:set("a", 9)
        ring:set("a", 5)
        assert.equal("a a", sequence(ring, 2))
        ring:reinit({ a = 50, b = 10, c = 10 })
        assert.equal("a a b", sequence(ring, 3))
    end)

    it("takes a node to weight 0 and back", function()
        local ring = vnswrr:new({ a = 1, b = 1 })
        ring:set("a", 0)
        assert.equal("b b b", sequence(ring, 3))
        ring:set("a", 1)
        assert.equal("a b a b", sequence(ring, 4))
    end)

    it("counts up and down, and never below 0", function()
        local ring = vnswrr:new({ a = 1 })
        ring:incr("b")
        assert.equal("a b", sequence(ring, 2))
        ring:incr("b", 3)
        ring:decr("a", 7)
        assert.equal("b b", sequence(ring, 2))
        ring:decr("b", 4)
        assert.is_nil(ring:find())
        ring:incr("a")
        assert.equal("a", ring:find())
    end)

    it("deletes a node", function()
        local ring = vnswrr:new({ a = 3, b = 1 })
        ring:delete("a")
        assert.equal("b b", sequence(ring, 2))
        ring:delete("a")
        ring:delete("b")
        assert.is_nil(ring:find())
    end)

    it("takes all nodes away and brings them back", function()
        local ring = vnswrr:new({})
        assert.is_nil(ring:next())
        ring:reinit({ a = 1 })
        assert.equal("a", ring:next())
        ring:reinit({})
        assert.is_nil(ring:next())
    end)
end)


describe("growth", function()
    it("builds max_init slots at once and the rest in slices", function()
        local ring = vnswrr:new({ a = 500, b = 499, c = 1 }, { max_init = 10 })
        assert.equal(10, ring.built)
        assert.equal(890, ring:grow(100))
        assert.equal(0, ring:grow(10000))
        assert.equal(1000, ring.built)
    end)

    it("happens by a slice when picks run ahead of it", function()
        local ring = vnswrr:new({ a = 500, b = 499, c = 1 }, { max_init = 1 })
        ring:find()
        ring:find()
        assert.equal(65, ring.built)
    end)

    it("never holds more than a window of an enormous cycle", function()
        local ring = vnswrr:new({ a = 999983, b = 1000000 })
        repeat until ring:grow(10000) == 0
        local seen = counts(ring, 1999983)
        assert.same({ a = 999983, b = 1000000 }, seen)
        assert.is_true(#ring.ring <= 262144)
    end)
end)


describe("a caller's bug", function()
    for _, weight in ipairs({ -1, 1.5, 0 / 0, 1 / 0, "3", true }) do
        it("raises: weight " .. tostring(weight), function()
            assert.has_error(function() vnswrr:new({ a = weight }) end)
            assert.has_error(function() vnswrr:new({ a = 1 }):set("a", weight) end)
        end)
    end
end)
