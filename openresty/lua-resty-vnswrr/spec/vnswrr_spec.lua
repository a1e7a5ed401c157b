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


--- A `random` that returns 1, 2, 3, ..., to visit every start of a cycle.
local function every_start()
    local last = 0
    return function(n)
        last = last % n + 1
        return last
    end
end


--- n ids in order, and a weight for each.
local function lists(n)
    local ids, weights = {}, {}
    for i = 1, n do
        ids[i], weights[i] = ("server-%05d"):format(i), i % 37 + 1
    end
    return ids, weights
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
        local forwards, backwards, expected = {}, {}, {}
        for i = 1, 50 do
            forwards[("s%02d"):format(i)] = 1
            backwards[("s%02d"):format(51 - i)] = 1
            expected[i] = ("s%02d"):format(i)
        end
        assert.equal(table.concat(expected, " "), sequence(vnswrr:new(forwards), 50))
        assert.equal(table.concat(expected, " "), sequence(vnswrr:new(backwards), 50))
    end)

    it("breaks ties by number, then byte by byte", function()
        assert.equal("2 10 B a a-b ab b", sequence(vnswrr:new(
            { b = 1, ["a-b"] = 1, B = 1, ab = 1, a = 1, [10] = 1, [2] = 1 }), 7))
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

    it("are exactly the weights where the split order is in use too, cycle after cycle", function()
        local nodes, total = {}, 0
        for i = 1, 500 do
            nodes["s" .. i] = i % 37 + 1
            total = total + nodes["s" .. i]
        end
        local ring = vnswrr:new(nodes, { random = function(n) return math.floor(n / 3) end })
        assert.is_true(500 * total > 1000000) -- otherwise SWRR would be in use
        assert.same(nodes, counts(ring, total))
        assert.same(nodes, counts(ring, total))
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
        ring:reinit({ a = 50, b = 10, c = 10, d = 0 })
        assert.equal("a a b", sequence(ring, 3))
        ring:reinit_sorted({ "a", "b", "c" }, { 5, 1, 1 })
        assert.equal("a c", sequence(ring, 2))
    end)

    it("restarts the ring when the same weights have other ids", function()
        local ring = vnswrr:new({ a = 1, b = 1 })
        assert.equal("a", sequence(ring, 1))
        ring:reinit({ a = 1, c = 1 })
        assert.equal("a c", sequence(ring, 2))
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
        assert.equal(0, ring:grow(100))
    end)

    it("reads the caller's table once and leaves it alone", function()
        local nodes = { a = 1, b = 1 }
        local ring = vnswrr:new(nodes)
        nodes.c = 1
        assert.equal("a b a b", sequence(ring, 4))
        ring:set("a", 7)
        assert.equal(1, nodes.a)
    end)
end)


describe("an update from sorted lists", function()
    it("gives the same order as from a map", function()
        local ids, weights = lists(300)
        local nodes = {}
        for i = 1, 300 do
            nodes[ids[i]] = weights[i]
        end
        local ring = vnswrr:new({})
        ring:reinit_sorted(ids, weights)
        assert.equal(sequence(vnswrr:new(nodes), 1000), sequence(ring, 1000))
    end)

    it("takes indexes as ids", function()
        local ring = vnswrr:new({})
        ring:reinit_sorted({ 1, 2, 3 }, { 5, 0, 1 })
        assert.equal("1 1 1 3 1 1", sequence(ring, 6))
    end)

    it("can be changed node by node afterwards", function()
        local ring = vnswrr:new({})
        ring:reinit_sorted({ "a", "b" }, { 1, 0 })
        ring:incr("b")
        ring:set("c", 1)
        assert.equal("a b c", sequence(ring, 3))
        ring:delete("a")
        assert.equal("b c", sequence(ring, 2))
    end)
end)


describe("an update that breathes", function()
    it("does so again and again: after at most 128 of each sort of rows", function()
        local ids, weights = lists(10000)
        local breaths, ring = 0, vnswrr:new({})
        local function breathe()
            breaths = breaths + 1
        end
        ring:reinit_sorted(ids, weights, breathe)
        assert.is_true(breaths > 10000 / 128 * 4, breaths .. " breaths")
        local nodes = {}
        for i = 1, 10000 do
            nodes[ids[i]] = weights[i] + 1
        end
        breaths = 0
        ring:reinit(nodes, breathe)
        assert.is_true(breaths > 10000 / 128 * 18, breaths .. " breaths") -- 14 more to sort
        breaths = 0
        vnswrr:new({ a = 500, b = 499 }, { breathe = breathe, max_init = 999 })
        assert.is_true(breaths > 999 / 64, breaths .. " breaths")
    end)

    it("plays its way to SWRR's start in small steps", function()
        local nodes = {}
        for i = 1, 1000 do
            nodes[i] = 1
        end
        local breaths = 0
        vnswrr:new(nodes, { random = function(n) return n end, breathe = function() breaths = breaths + 1 end })
        assert.is_true(breaths > 10)
    end)

    it("lets the old ring serve meanwhile", function()
        local ring, meanwhile = vnswrr:new({ a = 2, b = 1 }), {}
        ring:reinit({ c = 1 }, function()
            meanwhile[#meanwhile + 1] = sequence(ring, 3)
        end)
        assert.same({ "a b a" }, meanwhile)
        assert.equal("c c", sequence(ring, 2))
    end)

    it("takes the nodes as they were when it began", function()
        local ids, weights = lists(1000)
        local ring = vnswrr:new({})
        ring:reinit_sorted(ids, weights, function()
            ids[1], weights[1] = "changed", 0
        end)
        assert.is_true(counts(ring, ring.total)["server-00001"] == 2)
    end)

    it("is thrown away when another began later, whichever is done first", function()
        local ring = vnswrr:new({ a = 1 })
        local first = coroutine.create(function() return ring:reinit({ b = 1 }, coroutine.yield) end)
        local second = coroutine.create(function() return ring:reinit_sorted({ "c" }, { 1 }, coroutine.yield) end)
        coroutine.resume(first)
        coroutine.resume(second)
        assert.equal("a", ring:find())
        assert.same({ true, false }, { coroutine.resume(first) })
        assert.equal("a", ring:find())
        assert.same({ true, true }, { coroutine.resume(second) })
        assert.equal("c", ring:find())
    end)

    it("has a node that is set meanwhile on top of its own", function()
        local ring, answer = vnswrr:new({ a = 1 }), nil
        local update = coroutine.create(function() answer = ring:reinit({ b = 1, c = 1 }, coroutine.yield) end)
        coroutine.resume(update)
        ring:set("c", 0)
        assert.equal("b b", sequence(ring, 2))
        coroutine.resume(update)
        assert.is_false(answer)
        assert.equal("b b", sequence(ring, 2))
        ring:set("c", 1)
        assert.equal("b c", sequence(ring, 2))
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
        assert.same({ a = 999983, b = 1000000 }, counts(ring, 1999983))
        assert.is_true(ring.capacity <= 65536)
    end)
end)


describe("a caller's bug", function()
    for _, weight in ipairs({ -1, -0.5, 0 / 0, 1 / 0, 2 ^ 31 + 1, "three", "-1", "", true, {} }) do
        it("raises: weight " .. tostring(weight), function()
            local ring = vnswrr:new({ a = 1 })
            assert.has_error(function() vnswrr:new({ a = weight }) end)
            assert.has_error(function() ring:reinit_sorted({ "b" }, { weight }) end)
            assert.has_error(function() ring:set("a", weight) end)
            assert.equal("a a", sequence(ring, 2)) -- and leaves the ring as it was
        end)
    end

    it("raises: ids that are not in order, or twice the same", function()
        local ring = vnswrr:new({ a = 1 })
        assert.has_error(function() ring:reinit_sorted({ "b", "a" }, { 1, 1 }) end, "ids must rise, a comes after b")
        assert.has_error(function() ring:reinit_sorted({ "a", "a" }, { 1, 1 }) end)
        assert.has_error(function() ring:reinit_sorted({ "10", 9 }, { 1, 1 }) end)
        assert.has_error(function() ring:reinit_sorted({ "a" }, { 1, 1 }) end)
        assert.equal("a a", sequence(ring, 2))
    end)

    it("raises: what is no table of nodes, and what is no table of options, and says what to write", function()
        assert.has_error(function() vnswrr.new({ a = 1 }) end,
                         "nodes must be a table of id = weight; write it as vnswrr:new({ a = 1 }), with a colon")
        assert.has_error(function() vnswrr:new({ a = 1 }, 5) end,
                         "options must be a table; write it as { random = math.random }")
    end)

    it("raises: an id that cannot be put in order", function()
        assert.has_error(function() vnswrr:new({ [true] = 1 }) end)
        assert.has_error(function() vnswrr:new({}):set({}, 1) end)
    end)
end)
