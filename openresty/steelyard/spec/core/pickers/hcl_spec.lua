local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local hcl = require "steelyard.core.pickers.hcl"

local NOTHING = { in_flight = 0 }


--- The picked peer, if the ring's peer is a and the drawn ones are b and c, all of weight 1 except a.
-- @param lately requests in flight that earlier draws found: a number, or a function of the draw's number
local function trio(lately, a, b, c, weight_a)
    weight_a = weight_a or 1
    local stats, peers = fixtures.stats({}), fixtures.peers("a", weight_a, "b", 1, "c", 1)
    local picker = fixtures.picker(hcl, peers, stats, function() return 1 end)
    local drawn = fixtures.scripted(3)
    picker.candidates.another = function() return peers[drawn(3)] end
    -- Whole cycles, so that the ring is at its front again; the last quantile is taken over the 64 draws before it.
    for draw = 1, 64 * 2 * (weight_a + 2) do
        stats.rows[3] = { in_flight = type(lately) == "number" and lately or lately(draw) }
        picker:pick()
    end
    stats.rows = { a, b, c }
    drawn = fixtures.scripted(2, 3)
    return picker:pick().id
end


describe("hcl", function()
    it("takes the least latency among the cold ones, at any number in flight", function()
        assert.equal("a", trio(4, { latency = 10, in_flight = 3 }, { latency = 11 }, { latency = 12 }))
        assert.equal("b", trio(4, { latency = 11 }, { latency = 10, in_flight = 3 }, { latency = 12 }))
        assert.equal("c", trio(4, { latency = 11 }, { latency = 12 }, { latency = 10, in_flight = 3 }))
    end)

    it("takes no hot one while there is a cold one", function()
        assert.equal("c", trio(4, { latency = 1, in_flight = 4 }, { latency = 1, in_flight = 9 },
                               { latency = 99, in_flight = 3 }))
        assert.equal("b", trio(4, { latency = 20, in_flight = 4 }, { latency = 98 }, { latency = 99 }))
    end)

    it("leaves one idle that is over 5 times as slow as another with its queue", function()
        local slow = { latency = 51 }
        assert.equal("b", trio(4, slow, { latency = 10, in_flight = 9 }, slow))
        assert.equal("c", trio(4, { latency = 10, in_flight = 9 }, slow, { latency = 10, in_flight = 8 }))
        assert.equal("a", trio(4, slow, { latency = 10.2, in_flight = 9 }, slow))
        assert.equal("a", trio(4, slow, { in_flight = 9 }, slow)) -- b is unknown
        assert.equal("a", trio(4, { latency = 51, in_flight = 1 }, { latency = 10, in_flight = 9 },
                               { latency = 52, in_flight = 1 }))
        assert.equal("a", trio(4, slow, { latency = 10, failing = 0.6 }, slow))
    end)

    it("takes the least in flight if all are hot", function()
        assert.equal("b", trio(4, { latency = 1, in_flight = 6 }, { latency = 9, in_flight = 5 },
                               { latency = 1, in_flight = 7 }))
    end)

    it("takes a load at or above 84 % of the recent draws as hot", function()
        local function sevens(n)
            return function(draw) return draw % 64 < n and 7 or 0 end
        end
        local slow_idle, quick_busy = { latency = 9 }, { latency = 2, in_flight = 6 }
        assert.equal("b", trio(sevens(11), slow_idle, quick_busy, slow_idle)) -- 53 of 64 are 0: hot from 7 on
        assert.equal("a", trio(sevens(10), slow_idle, quick_busy, slow_idle)) -- 54 are: all are hot
    end)

    it("takes the lesser in flight on a tie of latency", function()
        assert.equal("b", trio(4, { latency = 5, in_flight = 2 }, { latency = 5, in_flight = 1 },
                               { latency = 5, in_flight = 3 }))
    end)

    it("takes the ring's peer on a tie in flight, unless it is over 5 times as slow", function()
        assert.equal("a", trio(0, { latency = 50 }, { latency = 10 }, { latency = 10 }))
        assert.equal("b", trio(0, { latency = 51 }, { latency = 10 }, { latency = 2 }))
        assert.equal("c", trio(0, { latency = 51, in_flight = 7 }, { latency = 52, in_flight = 7 },
                               { latency = 10, in_flight = 7 }))
        assert.equal("a", trio(0, { latency = 1e6 }, NOTHING, NOTHING)) -- an unknown latency is not compared
        assert.equal("a", trio(0, { latency = 5 }, { latency = 0.5 }, { latency = 0.5 })) -- whole ms
    end)

    it("takes the ring's peer if none is better", function()
        assert.equal("a", trio(4, { latency = 5 }, { latency = 5 }, { latency = 5 }))
        assert.equal("a", trio(0, NOTHING, NOTHING, NOTHING))
        assert.equal("a", trio(4, { latency = 1 }, { latency = 0.5 }, { latency = 0.6 })) -- nginx counts in whole ms
    end)

    it("counts requests in flight relative to the weight", function()
        assert.equal("a", trio(0, { in_flight = 3 }, { in_flight = 1 }, { in_flight = 1 }, 3)) -- a tie
        assert.equal("b", trio(0, { in_flight = 4 }, { in_flight = 1 }, { in_flight = 1 }, 3))
        -- With mean 5/3, the 3 of c are a load of 5; a has this load with 9 in flight.
        assert.equal("a", trio(3, { latency = 2, in_flight = 8 }, { latency = 9 }, { latency = 9 }, 3))
        assert.equal("b", trio(3, { latency = 2, in_flight = 9 }, { latency = 9 }, { latency = 9 }, 3))
    end)

    it("tries a peer that it knows nothing of, with one request", function()
        assert.equal("b", trio(4, { latency = 1 }, NOTHING, { latency = 1 }))
        assert.equal("a", trio(4, { latency = 1e6 }, { in_flight = 1 }, { in_flight = 1 }))
        assert.equal("c", trio(4, { in_flight = 3 }, { in_flight = 2 }, { in_flight = 1 }))
    end)

    it("avoids a peer that fails, however quick and idle it is", function()
        local fails = { failing = 0.51, latency = 1 }
        assert.equal("c", trio(4, fails, fails, { latency = 99, in_flight = 9 }))
        assert.equal("b", trio(4, { failing = 0.9, in_flight = 2 }, { failing = 0.6, in_flight = 1 },
                               { failing = 1, in_flight = 3 }))
    end)
end)
