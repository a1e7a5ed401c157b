local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local upstream = require "steelyard.core.upstream"
local weight_table = require "steelyard.core.weight_table"

local ROWS = '{"id":"a","address":"10.0.0.1:80","weight":20,"baseline":20,"state":"up","zone":"x"},'
             .. '{"id":"b","address":"10.0.0.2:80","weight":40,"baseline":20,"state":"up","zone":"y"},'
             .. '{"id":"c","address":"10.0.0.3:80","weight":60,"baseline":20,"state":"up"}'

local STAY, SPILL = "[[1000,1,1],[1,1000,1],[1000,1000,1000]]", "[[1000,500,1],[1,1000,1],[1000,1000,1000]]"


local function decoded(factors, previous, picker)
    return assert(weight_table.decode('{"v":1,"upstream":"web","term":1,"generation":1,"issued_at_ms":1,"reporters":[],'
        .. '"law":"steelyard","picker":"' .. (picker or "vnswrr2") .. '","zones":["x","y"],"zone_factors":' .. factors
        .. ',"peers":[' .. ROWS .. "]}", { previous = previous }))
end


--- An upstream of a load balancer in a zone.
local function live_in(zone)
    return upstream.new("web", { retries = 2, panic_threshold = 0 }, {
        random = math.random, stats = fixtures.stats({}), now = function() return 0 end, zone = zone,
    })
end


local function weights(live)
    local list = {}
    for i, peer in ipairs(live.eligible) do
        list[i] = peer.weight
    end
    return list
end


describe("a table with zones", function()
    it("gives a load balancer the weights times the factors of its zone", function()
        for zone, expected in pairs({ x = { 20000, 40, 60 }, y = { 20, 40000, 60 } }) do
            local live = live_in(zone)
            assert.is_true(live:take(decoded(STAY), "fresh", 0))
            assert.same(expected, weights(live))
        end
    end)

    it("leaves the weights alone if the load balancer has no zone, or one that no server has", function()
        for _, zone in ipairs({ false, "z" }) do
            local live = live_in(zone or nil)
            local taken = decoded(STAY)
            live:take(taken, "fresh", 0)
            assert.same({ 20, 40, 60 }, weights(live))
            assert.equal(taken.peers[1], live.eligible[1])
        end
    end)

    it("may have zones of any name", function()
        local taken = assert(weight_table.decode('{"v":1,"upstream":"web","term":1,"generation":1,"issued_at_ms":1,'
            .. '"reporters":[],'
            .. '"law":"steelyard","picker":"vnswrr2","zones":["factors","text"],"zone_factors":' .. STAY
            .. ',"peers":[' .. ROWS .. "]}"))
        assert.same({ factors = 1000, text = 1, [""] = 1 }, taken.zones.factors.factors)
        assert.equal(1000, taken.zones.factors.text.text)
    end)

    it("is taken again if the factors alone have changed, and not if they are the same", function()
        local live, first = live_in("x"), decoded(STAY)
        live:take(first, "fresh", 0)
        local again = decoded(STAY, first)
        assert.equal(first.peers, again.peers)
        assert.is_true(weight_table.same(first, again))
        assert.is_false(live:take(again, "fresh", 0))
        local other = decoded(SPILL, again)
        assert.equal(first.peers, other.peers)
        assert.is_false(weight_table.same(again, other))
        assert.is_true(live:take(other, "fresh", 0))
        assert.same({ 20000, 20000, 60 }, weights(live))
    end)

    it("uses the other zones' servers, by their weights, if all near ones are out", function()
        local live = live_in("x")
        live:take(decoded(STAY), "fresh", 0, { a = {} })
        local counts = { b = 0, c = 0 }
        for _ = 1, 100 do
            local id = live:first().id
            counts[id] = counts[id] + 1
        end
        assert.same({ b = 40, c = 60 }, counts)
    end)

    it("retries if it can", function()
        local live = live_in("x")
        live:take(decoded(STAY), "fresh", 0)
        local peer = live:another({ live.eligible[1], n = 1 }, 1)
        assert.is_true(peer.id == "b" or peer.id == "c")
    end)

    it("moves no key: a hash picker knows no zones", function()
        local live = live_in("x")
        live:take(decoded(STAY, nil, "bounded_hash"), "fresh", 0)
        assert.same({ 20, 40, 60 }, weights(live))
    end)
end)
