local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local least_conn = require "steelyard.core.pickers.least_conn"

local peers = fixtures.peers


local function picker_of(list, rows, random)
    return fixtures.picker(least_conn, list, fixtures.stats(rows), random or math.random)
end


describe("least_conn", function()
    it("takes the least in flight for its weight", function()
        local rows = { { in_flight = 6 }, { in_flight = 2 }, { in_flight = 1 } }
        for _ = 1, 20 do
            assert.equal("a", picker_of(peers("a", 10, "b", 1, "c", 1), rows):pick().id) -- 0.6, 2, 1
        end
        for _ = 1, 20 do
            assert.equal("c", picker_of(peers("a", 5, "b", 1, "c", 1), rows):pick().id) -- 1.2, 2, 1
        end
    end)

    it("never takes a peer that is not the least of those that do not fail", function()
        math.randomseed(20260921)
        for _ = 1, 500 do
            local list, rows, least = {}, {}, 1 / 0
            for i = 1, math.random(12) do
                list[2 * i - 1], list[2 * i] = string.format("s%02d", i), math.random(4)
                rows[i] = { in_flight = math.random(0, 6), failing = math.random(4) == 1 and 0.9 or 0 }
                if rows[i].failing == 0 then
                    least = math.min(least, rows[i].in_flight / list[2 * i])
                end
            end
            local picker = picker_of(peers(unpack(list)), rows)
            for _ = 1, 20 do
                local peer = picker:pick()
                if least < 1 / 0 then
                    assert.equal(least, rows[peer.cell].in_flight / peer.weight)
                    assert.equal(0, rows[peer.cell].failing)
                end
            end
        end
    end)

    it("takes the least when all fail", function()
        local picker = picker_of(peers("a", 1, "b", 1), { { failing = 0.9, in_flight = 1 }, { failing = 0.6 } })
        assert.equal("b b b", fixtures.ids(picker, 3))
    end)

    it("serves in the ring's order while ties last: at rest and under equal load", function()
        local list = peers("a", 5, "b", 1, "c", 1)
        assert.equal("a a b a c a a", fixtures.ids(picker_of(list), 7))
        local rows = { { in_flight = 5 }, { in_flight = 1 }, { in_flight = 1 } }
        assert.equal("a a b a c a a", fixtures.ids(picker_of(list, rows), 7))
    end)

    for name, rows in pairs({
        idle = { { in_flight = 50 }, {}, {} },
        busy = { { in_flight = 50 }, { in_flight = 2 }, { in_flight = 1 } },
    }) do
        it("divides the share of a busy peer by weight: " .. name, function()
            math.randomseed(7)
            local picker, seen = picker_of(peers("a", 5, "b", 2, "c", 1), rows), { a = 0, b = 0, c = 0 }
            for _ = 1, 8000 do
                local id = picker:pick().id
                seen[id] = seen[id] + 1
            end
            assert.equal(0, seen.a)
            assert.is_true(math.abs(seen.b / 8000 - 2 / 3) < 0.03, "b has " .. seen.b / 8000)
        end)
    end

    it("takes another idle peer if the ring's one is over 5 times as slow", function()
        local list, always_b = peers("a", 1, "b", 1), fixtures.scripted(2, 1)
        assert.equal("b", picker_of(list, { { latency = 51 }, { latency = 10 } }, always_b):pick().id)
        assert.equal("a", picker_of(list, { { latency = 50 }, { latency = 10 } }, always_b):pick().id)
        assert.equal("a", picker_of(list, { { latency = 51 }, {} }, always_b):pick().id)
    end)

    it("leaves a slow peer idle while another would answer sooner despite its requests in flight", function()
        local list, always_b = peers("a", 1, "b", 1), fixtures.scripted(2, 1)
        local function rival(in_flight)
            local rows = { { latency = 51 }, { latency = 10, in_flight = in_flight } }
            return picker_of(list, rows, always_b):pick().id
        end
        assert.equal("b", rival(4)) -- 5 x 10 ms
        assert.equal("a", rival(5))
    end)

    it("tries a slow idle peer that has rested", function()
        local rows = { { latency = 51, rested = true }, { latency = 10, in_flight = 1 } }
        assert.equal("a", picker_of(peers("a", 1, "b", 1), rows, fixtures.scripted(2, 1)):pick().id)
    end)

    it("knows the slow one under equal load, too", function()
        local rows = { { latency = 51, in_flight = 1 }, { latency = 10, in_flight = 1 }, { in_flight = 2 } }
        assert.equal("b b b", fixtures.ids(picker_of(peers("a", 1, "b", 1, "c", 1), rows), 3))
        rows = { { in_flight = 2 }, { latency = 10, in_flight = 1 }, { latency = 51, in_flight = 1 } }
        assert.equal("b b b", fixtures.ids(picker_of(peers("a", 1, "b", 1, "c", 1), rows, fixtures.scripted(1)), 3))
    end)

    it("avoids a failing peer, at any load of the others", function()
        local rows = { { failing = 0.51 }, { in_flight = 1000, latency = 1000 } }
        assert.equal("b b b", fixtures.ids(picker_of(peers("a", 9, "b", 1), rows), 3))
        rows[1].failing = 0.5
        assert.equal("a a a", fixtures.ids(picker_of(peers("a", 9, "b", 1), rows), 3))
    end)
end)
