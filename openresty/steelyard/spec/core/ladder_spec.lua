local no_pause = require("resty.vnswrr").no_pause
local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local ladder = require "steelyard.core.ladder"

local LIMITS = { fresh_s = 3, hold_s = 60, drift_s = 300 }


local function rung(age_s, from_disk)
    return { ladder.rung(age_s, true, LIMITS, from_disk) }
end


describe("the rung", function()
    it("is fresh, then hold, then drift in steps of a twentieth", function()
        assert.same({ "fresh", 0 }, rung(0))
        assert.same({ "fresh", 0 }, rung(3))
        assert.same({ "hold", 0 }, rung(3.1))
        assert.same({ "hold", 0 }, rung(63))
        assert.same({ "drift", 0 }, rung(63.1))
        assert.same({ "drift", 0.05 }, rung(78))
        assert.same({ "drift", 0.5 }, rung(213))
        assert.same({ "drift", 1 }, rung(363))
        assert.same({ "drift", 1 }, rung(1e6))
    end)

    it("stays saved for a table from disk, which holds and then drifts likewise", function()
        assert.same({ "saved", 0 }, rung(0, true))
        assert.same({ "saved", 0 }, rung(60, true))
        assert.same({ "saved", 0.5 }, rung(210, true))
        assert.same({ "saved", 1 }, rung(1e6, true))
    end)

    it("is bootstrap or none if there never was a table", function()
        assert.same({ "bootstrap", 0 }, { ladder.rung(nil, true, LIMITS, false) })
        assert.same({ "none", 0 }, { ladder.rung(nil, false, LIMITS, false) })
    end)

    it("holds no drift against a clock that was set back", function()
        assert.same({ "fresh", 0 }, rung(-3600))
        assert.same({ "saved", 0 }, rung(-3600, true))
    end)

    it("is always one of RUNGS, from the best to the worst", function()
        assert.same({ "fresh", "hold", "drift", "saved", "bootstrap", "none" }, ladder.RUNGS)
    end)
end)


describe("drifted weights", function()
    local function peer(id, weight, baseline)
        return { id = id, weight = weight, baseline = baseline, cell = 7 }
    end

    local function shares(peers)
        local total, list = 0, {}
        for i = 1, #peers do
            total = total + peers[i].weight
        end
        for i = 1, #peers do
            list[i] = peers[i].weight / total
        end
        return list
    end

    local PEERS = { peer("a", 9, 1), peer("b", 1, 1) }

    it("are the effective ones at 0, half-way at a half, the baselines at 1", function()
        assert.equal(PEERS, ladder.drifted(PEERS, 0, no_pause))
        assert.same({ 0.7, 0.3 }, shares(ladder.drifted(PEERS, 0.5, no_pause)))
        assert.same({ 0.5, 0.5 }, shares(ladder.drifted(PEERS, 1, no_pause)))
    end)

    it("are those of copies, which keep all else of a peer", function()
        local moved = ladder.drifted(PEERS, 0.5, no_pause)
        assert.equal(9, PEERS[1].weight)
        assert.same({ "a", 7, 1 }, { moved[1].id, moved[1].cell, moved[1].baseline })
    end)

    it("keep the shares of 10,000 peers to within 5 % of each, and breathe", function()
        local peers = {}
        for i = 1, 10000 do
            peers[i] = peer("p" .. i, 1, 20)
        end
        peers[1].weight = 3
        local breathe, breaths = counted_breaths()
        local moved = ladder.drifted(peers, 0.5, breathe)
        assert.equal(500, breaths())
        local share = shares(moved)
        assert.is_true(math.abs(share[1] * 10000 - 2) < 0.1)
        assert.is_true(math.abs(share[2] * 10000 - 1) < 0.05)
    end)
end)
