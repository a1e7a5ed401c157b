--- Rules for all of Steelyard's own pickers.

local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local closed = require "openresty.steelyard.spec.support.closed_simulation"
local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local pickers = require "steelyard.core.pickers"


--- A picker at the front of its ring, at rest.
local function picker_of(name, peers)
    local picker = pickers.make(name, {
        random = function() return 1 end, stats = fixtures.stats(), now = function() return 0 end,
    })
    if peers then
        picker:update(peers)
    end
    return picker
end


local function many(prefix, weight)
    local peers = {}
    for i = 1, 300 do
        peers[i] = { id = string.format("%s%03d", prefix, i), weight = weight(i), cell = i }
    end
    return peers
end


local function one(i)
    return i > 0 and 1
end


for _, name in ipairs(fixtures.own()) do
    describe("picker " .. name, function()
        it("picks nothing before it has peers, and after it has lost them", function()
            local picker = picker_of(name)
            assert.is_nil(picker:pick())
            assert.equal(0, picker:grow(10))
            picker:update(fixtures.peers("a", 1))
            assert.equal("a", picker:pick().id)
            picker:update({})
            assert.is_nil(picker:pick())
        end)

        it("serves a cluster at rest in nginx's order", function()
            local picker = picker_of(name, fixtures.peers("a", 5, "b", 1, "c", 1))
            assert.equal("a a b a c a a a a b a c a a", fixtures.ids(picker, 14))
        end)

        it("takes a new address without restarting", function()
            local picker = picker_of(name, fixtures.peers("a", 2, "b", 1))
            assert.equal("a b", fixtures.ids(picker, 2))
            local moved = fixtures.peers("a", 2, "b", 1)
            moved[1].address = "new:80"
            picker:update(moved)
            assert.equal("new:80", picker:pick().address)
            assert.equal("a b", fixtures.ids(picker, 2))
        end)

        it("restarts if a weight changed", function()
            local picker = picker_of(name, fixtures.peers("a", 2, "b", 1))
            assert.equal("a b", fixtures.ids(picker, 2))
            picker:update(fixtures.peers("a", 3, "b", 1))
            assert.equal("a a b a", fixtures.ids(picker, 4))
        end)

        it("wants a key if it says that it goes by one", function()
            assert.equal(fixtures.listed(name).by_key or nil, picker_of(name).wants_key)
        end)

        it("serves the old peers as long as an update breathes", function()
            local picker = picker_of(name, many("old", one))
            local breathe, breaths = counted_breaths(function()
                assert.equal("old", string.sub(picker:pick().id, 1, 3))
            end)
            picker:update(many("new", function(i) return i end), breathe)
            assert.is_true(breaths() > 5)
            assert.equal("new", string.sub(picker:pick().id, 1, 3))
        end)

        it("ends with the update that began last, wherever the one before it was", function()
            local counting, all = counted_breaths()
            picker_of(name, many("old", one)):update(many("new", math.abs), counting)
            for at = 1, all() do
                local picker = picker_of(name, many("old", one))
                picker:update(many("new", math.abs), (counted_breaths(function(breaths)
                    if breaths == at then
                        picker:update(fixtures.peers("last", 1, "more", 1))
                    end
                end)))
                assert.equal("last more last more", fixtures.ids(picker, 4))
            end
        end)

        it("stays sound when two updates breathe at once", function()
            for stride = 1, 4 do
                local picker, is_sound = picker_of(name, many("old", one)), true
                local running = {}
                for i, prefix in ipairs({ "one", "two" }) do
                    running[i] = coroutine.create(function()
                        picker:update(many(prefix, function(k) return k * i end), coroutine.yield)
                    end)
                end
                assert(coroutine.resume(running[1]))
                repeat
                    for _ = 1, stride do
                        if coroutine.status(running[1]) ~= "dead" then
                            assert(coroutine.resume(running[1]))
                        end
                    end
                    if coroutine.status(running[2]) ~= "dead" then
                        assert(coroutine.resume(running[2]))
                    end
                    is_sound = is_sound and picker:pick().id ~= nil
                until coroutine.status(running[1]) == "dead" and coroutine.status(running[2]) == "dead"
                assert.is_true(is_sound)
                assert.equal("two", string.sub(picker:pick().id, 1, 3))
            end
        end)

        it("gives each of 500 peers its share, exactly, over a cycle at rest", function()
            local peers, expected, seen = {}, {}, {}
            for i = 1, 500 do
                peers[i] = { id = string.format("s%03d", i), weight = i % 37 + 1, cell = i }
                expected[peers[i].id], seen[peers[i].id] = peers[i].weight, 0
            end
            local picker, total = picker_of(name, peers), 0
            for i = 1, 500 do
                total = total + peers[i].weight
            end
            repeat until picker:grow(1000) == 0
            for _ = 1, total do
                local id = picker:pick().id
                seen[id] = seen[id] + 1
            end
            assert.same(expected, seen)
        end)
    end)
end


local function constant(seconds)
    return function() return seconds end
end


local function exponential(mean)
    return function() return -mean * math.log(1 - math.random()) end
end


local function shares(name, rows, clients)
    math.randomseed(20260921)
    local function make(context)
        return (pickers.make(name, context))
    end
    return closed.run(make, rows, { clients = clients, requests = 5000 })
end


for _, name in ipairs(fixtures.own(true)) do
    describe("a server that answers 500 in 1 ms does not win picker " .. name, function()
        for _, clients in ipairs({ 1, 8, 64 }) do
            it("among three alike, with " .. clients .. " clients", function()
                local share = shares(name, {
                    { "a", 1, lanes = 8, service_s = exponential(0.01) },
                    { "b", 1, lanes = 8, service_s = exponential(0.01) },
                    { "c", 1, lanes = 8, service_s = constant(0.001), fails = true },
                }, clients)
                assert.is_true(share.c < 0.03, "it has " .. share.c)
            end)
        end

        it("if it is the heaviest", function()
            local share = shares(name, {
                { "a", 5, lanes = 20, service_s = constant(0.001), fails = true },
                { "b", 1, lanes = 4, service_s = exponential(0.01) },
                { "c", 1, lanes = 4, service_s = exponential(0.01) },
            }, 16)
            assert.is_true(share.a < 5 / 7 / 3, "it has " .. share.a)
        end)

        it("if there is only one other", function()
            local share = shares(name, {
                { "a", 1, lanes = 8, service_s = exponential(0.01) },
                { "b", 1, lanes = 8, service_s = constant(0.001), fails = true },
            }, 16)
            assert.is_true(share.b < 0.05, "it has " .. share.b)
        end)
    end)

    describe("picker " .. name .. " against plain vnswrr", function()
        it("keeps requests from a server that is slower than its weight says", function()
            local function rows()
                return {
                    { "a", 1, lanes = 4, service_s = exponential(0.01) },
                    { "b", 1, lanes = 4, service_s = exponential(0.01) },
                    { "c", 1, lanes = 1, service_s = exponential(0.01) },
                }
            end
            local plain, ours = shares("vnswrr", rows(), 24), shares(name, rows(), 24)
            assert.is_true(math.abs(plain.c - 1 / 3) < 0.001, "plain: " .. plain.c)
            assert.is_true(ours.c < 0.25, "ours: " .. ours.c)
        end)
    end)
end
