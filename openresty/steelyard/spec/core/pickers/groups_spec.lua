local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local vnswrr2 = require "steelyard.core.pickers.vnswrr2"

local NAMES = { "vnswrr2", "least_conn", "peak_ewma", "hcl" }


--- Near peers of 1000 each and idle far ones of 10; return how many of n picks go far.
local function far_of(name, picks, grouped)
    local peers, rows = fixtures.peers("far-1", 10, "far-2", 10, "near-1", 1000, "near-2", 1000), {}
    for cell = 1, 4 do
        rows[cell] = { in_flight = cell > 2 and 5 or 0, latency = 10, peak = 10 }
        peers[cell].group = grouped and (cell > 2 and "a" or "b") or nil
    end
    math.randomseed(1)
    local picker = fixtures.picker(require("steelyard.core.pickers." .. name), peers, fixtures.stats(rows), math.random)
    local far = 0
    for _ = 1, picks do
        far = far + (string.find(picker:pick().id, "far", 1, true) and 1 or 0)
    end
    return far, picker
end


describe("peers with groups", function()
    it("get the share of their weights, even if other peers are idle", function()
        for _, name in ipairs(NAMES) do
            assert.equal(20, far_of(name, 2020, true), name) -- a cycle
        end
        assert.is_true(far_of("vnswrr2", 2020, false) > 1000)
    end)

    it("are chosen by their requests in flight within a group", function()
        local peers = fixtures.peers("far-1", 10, "near-1", 1000, "near-2", 1000)
        local rows = { {}, { in_flight = 5 }, {} }
        peers[1].group, peers[2].group, peers[3].group = "b", "a", "a"
        local picker = fixtures.picker(vnswrr2, peers, fixtures.stats(rows), math.random)
        local counts = {}
        for _ = 1, 201 do
            local id = picker:pick().id
            counts[id] = (counts[id] or 0) + 1
        end
        assert.is_true(counts["near-2"] > 180)
    end)

    it("go back to all of them when a table has none any more", function()
        local _, picker = far_of("vnswrr2", 10, true)
        local peers = fixtures.peers("far-1", 1000, "far-2", 1000, "near-1", 1000, "near-2", 1000)
        picker:update(peers)
        for _ = 1, 20 do
            assert.is_truthy(string.find(picker:pick().id, "far", 1, true))
        end
    end)

    it("of one are those that nobody has pinned: a pinned one gets its share, idle or busy, and no more", function()
        for _, name in ipairs(NAMES) do
            for _, busy in ipairs({ 0, 50 }) do
                local peers = fixtures.peers("a", 490, "b", 490, "canary", 20)
                peers[3].pinned = true
                local rows = {}
                for cell = 1, 3 do
                    rows[cell] = { in_flight = cell == 3 and busy or 5, latency = 10, peak = 10 }
                end
                math.randomseed(1)
                local picker = fixtures.picker(require("steelyard.core.pickers." .. name), peers, fixtures.stats(rows),
                                               math.random)
                local counts = { a = 0, b = 0, canary = 0 }
                for _ = 1, 1000 do
                    local id = picker:pick().id
                    counts[id] = counts[id] + 1
                end
                assert.equal(20, counts.canary, name)
            end
        end
    end)
end)
