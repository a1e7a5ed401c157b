local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local vnswrr2 = require "steelyard.core.pickers.vnswrr2"

local peers = fixtures.peers


--- Return the picked peer. The ring's peer is a and the drawn one is b, both of weight 1 by default.
-- @param beside_others whether other load balancers send requests there
local function duel(a, b, weight_a, beside_others)
    local stats = fixtures.stats({ a, b })
    -- Column 2, height 1: b.
    local picker = fixtures.picker(vnswrr2, peers("a", weight_a or 1, "b", 1), stats, fixtures.scripted(2, 1))
    picker:note_others(beside_others or false)
    return picker:pick().id
end


describe("vnswrr2", function()
    it("takes the candidate with less in flight", function()
        assert.equal("a", duel({ in_flight = 1 }, { in_flight = 2 }))
        assert.equal("b", duel({ in_flight = 2 }, { in_flight = 1 }))
    end)

    it("counts requests in flight relative to the weight", function()
        assert.equal("a", duel({ in_flight = 2 }, { in_flight = 1 }, 3))
        assert.equal("a", duel({ in_flight = 3 }, { in_flight = 1 }, 3)) -- a tie
        assert.equal("b", duel({ in_flight = 4 }, { in_flight = 1 }, 3))
    end)

    it("takes the ring's candidate on a tie, unless it is over 5 times as slow", function()
        assert.equal("a", duel({ latency = 50 }, { latency = 10 }))
        assert.equal("b", duel({ latency = 51 }, { latency = 10 }))
        assert.equal("b", duel({ latency = 51, in_flight = 7 }, { latency = 10, in_flight = 7 }))
    end)

    it("takes the ring's candidate on a tie beside other load balancers only if it is hardly slower", function()
        assert.equal("a", duel({ latency = 15 }, { latency = 10 }, 1, true))
        assert.equal("b", duel({ latency = 16 }, { latency = 10 }, 1, true))
        assert.equal("a", duel({ latency = 2 }, { latency = 1 }, 1, true)) -- nginx's clock has whole milliseconds
        assert.equal("b", duel({ latency = 2.1 }, { latency = 1 }, 1, true))
        assert.equal("b", duel({ latency = 16, in_flight = 7 }, { latency = 10, in_flight = 7 }, 1, true))
        assert.equal("a", duel({ latency = 49 }, { latency = 10, in_flight = 1 }, 1, true)) -- no tie
        assert.equal("a", duel({ latency = 1e6 }, {}, 1, true))
    end)

    it("goes by the ring again when no other load balancer is left", function()
        local stats = fixtures.stats({ { latency = 20 }, { latency = 10 } })
        local picker = fixtures.picker(vnswrr2, peers("a", 1, "b", 1), stats, fixtures.scripted(2, 1))
        picker:note_others(true)
        assert.equal("b", picker:pick().id)
        picker:update(peers("a", 1, "b", 1))
        picker:note_others(false)
        assert.equal("b a b a", fixtures.ids(picker, 4))
    end)

    it("compares no latency that is not known", function()
        assert.equal("a", duel({ latency = 1e6 }, {}))
        assert.equal("a", duel({}, { latency = 1 }))
    end)

    it("takes less in flight also from a slow peer", function()
        assert.equal("a", duel({ latency = 1000, in_flight = 1 }, { latency = 1, in_flight = 2 }))
    end)

    it("leaves a slow peer idle while the other would answer sooner despite its requests in flight", function()
        assert.equal("b", duel({ latency = 51 }, { latency = 10, in_flight = 4 })) -- 5 x 10 ms
        assert.equal("a", duel({ latency = 51 }, { latency = 10, in_flight = 5 }))
        assert.equal("a", duel({ latency = 50 }, { latency = 10, in_flight = 1 })) -- not over 5 times
        assert.equal("a", duel({ latency = 10, in_flight = 4 }, { latency = 51 }))
        assert.equal("a", duel({ latency = 51 }, { in_flight = 1 })) -- b is unknown
    end)

    it("tries a slow idle peer that has rested, in its turn", function()
        assert.equal("a", duel({ latency = 51, rested = true }, { latency = 10 }))
        assert.equal("a", duel({ latency = 51, rested = true }, { latency = 10, in_flight = 1 }))
        assert.equal("a", duel({ latency = 10 }, { latency = 51, rested = true }))
        assert.equal("a", duel({ latency = 51, rested = true }, { latency = 10 }, 1, true))
        assert.equal("b", duel({ latency = 49, rested = true }, { latency = 10 }, 1, true)) -- it fades soon
    end)

    it("avoids a failing peer, at any number in flight", function()
        assert.equal("b", duel({ failing = 0.51 }, { in_flight = 1000, latency = 1000 }))
        assert.equal("a", duel({ in_flight = 1000 }, { failing = 0.51 }))
        assert.equal("a", duel({ failing = 0.5 }, { in_flight = 1 }))
    end)

    it("goes by requests in flight if both fail", function()
        assert.equal("b", duel({ failing = 0.9, in_flight = 1 }, { failing = 0.6 }))
    end)

    it("draws again if it drew the ring's candidate", function()
        local stats = fixtures.stats({ { in_flight = 1 } })
        local picker = fixtures.picker(vnswrr2, peers("a", 1, "b", 1), stats, fixtures.scripted(1, 1, 1, 1, 1, 1, 2, 1))
        assert.equal("b", picker:pick().id)
    end)

    it("takes the only peer", function()
        assert.equal("a a a", fixtures.ids(fixtures.picker(vnswrr2, peers("a", 3), fixtures.stats(), math.random), 3))
    end)

    it("looks at the others of a small cluster while both are busy", function()
        local stats = fixtures.stats({ { in_flight = 2 }, { in_flight = 3 }, { in_flight = 1 }, {} })
        local all = peers("a", 1, "b", 1, "c", 1, "d", 1)
        -- a and b first: column 2, height 1. From the second on: c is better, d is idle.
        assert.equal("d", fixtures.picker(vnswrr2, all, stats, fixtures.scripted(2, 1, 1)):pick().id)
        stats.rows[4] = { in_flight = 4 }
        assert.equal("c", fixtures.picker(vnswrr2, all, stats, fixtures.scripted(2, 1, 1)):pick().id)
        stats.rows[4] = { failing = 0.9 }
        assert.equal("c", fixtures.picker(vnswrr2, all, stats, fixtures.scripted(2, 1, 1)):pick().id)
    end)

    it("takes the heaviest idle peer in the place of a busy one beside other load balancers", function()
        local function picked(rows, weight_c, alone)
            local all = peers("a", 4, "b", 4, "c", weight_c, "d", 6)
            -- The ring begins with the heaviest. The draw is b: column 2, height 1. From the second peer on.
            local picker = fixtures.picker(vnswrr2, all, fixtures.stats(rows), fixtures.scripted(2, 1, 1))
            picker:note_others(not alone)
            return picker:pick().id
        end
        assert.equal("c", picked({}, 8))
        assert.equal("d", picked({ {}, {}, { in_flight = 1 } }, 8))
        assert.equal("d", picked({ {}, { in_flight = 1 }, { in_flight = 1 } }, 8))
        assert.equal("b", picked({ {}, {}, { in_flight = 1 }, { in_flight = 1 } }, 8))
        assert.equal("b", picked({ {}, { latency = 10 }, { in_flight = 1 }, { latency = 51 } }, 8)) -- d is slower
        assert.equal("b", picked({ {}, {}, { in_flight = 1 }, { failing = 0.9 } }, 8))
        assert.equal("b", picked({ {}, {}, { in_flight = 1 } }, 8, true))
        local all, rows = peers("a", 4, "b", 4, "c", 5), { {}, {}, { in_flight = 1 } } -- c is hardly heavier
        local picker = fixtures.picker(vnswrr2, all, fixtures.stats(rows), fixtures.scripted(2, 1, 1))
        picker:note_others(true)
        assert.equal("b", picker:pick().id)
    end)

    it("goes by the ring beside other load balancers while its peers are idle", function()
        local all, stats = peers("a", 5, "b", 1, "c", 1), fixtures.stats({ [3] = { in_flight = 1 } })
        local picker = fixtures.picker(vnswrr2, all, stats, fixtures.scripted(1, 1, 3, 1))
        picker:note_others(true)
        assert.equal("a a b a", fixtures.ids(picker, 4))
    end)

    it("draws 14 more of a large cluster while all are busy, and no more", function()
        local rows, list = {}, {}
        for i = 1, 40 do
            rows[i] = { in_flight = 5 }
            list[2 * i - 1], list[2 * i] = "p" .. i, 1
        end
        local stats, all, draws = fixtures.stats(rows), peers(unpack(list)), 0
        local picker = fixtures.picker(vnswrr2, all, stats, function() return 1 end)
        picker.candidates.another = function()
            draws = draws + 1
            return all[20 + draws]
        end
        rows[27] = { in_flight = 4 }
        assert.equal("p27", picker:pick().id)
        assert.equal(1 + 14, draws)
        draws, rows[23] = 0, {}
        assert.equal("p23", picker:pick().id)
        assert.equal(3, draws)
    end)

    it("goes on along the ring when the ring's candidate loses", function()
        local stats = fixtures.stats({ { in_flight = 9 } })
        -- a a b a c a a; the draw is always c: column 3, height 1.
        local picker = fixtures.picker(vnswrr2, peers("a", 5, "b", 1, "c", 1), stats, fixtures.scripted(3, 1))
        assert.equal("c c b c c c c", fixtures.ids(picker, 7))
        stats.rows = {}
        assert.equal("a a b a c a a", fixtures.ids(picker, 7))
    end)
end)
