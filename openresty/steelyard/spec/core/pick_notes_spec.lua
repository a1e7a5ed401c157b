local peer_stats = require "steelyard.core.peer_stats"
local pick_notes = require "steelyard.core.pick_notes"


local function recorder_of(n)
    local stats, peers = peer_stats.new(peer_stats.local_memory(n + 1), 1, n + 1, 0), {}
    for i = 1, n do
        peers[i] = { id = "s" .. i, cell = i, weight = 10 * i }
    end
    local recorder, notes = pick_notes.recorder(stats)
    return stats, peers, recorder, notes
end


describe("the notes of a picker", function()
    it("list the peers it looked at, once each, and begin again", function()
        local stats, peers, recorder, notes = recorder_of(3)
        stats:raise(2)
        for _, cell in ipairs({ 3, 2, 3 }) do
            recorder:in_flight(cell)
        end
        assert.equal("s3 0/30, s2 1/20", notes:take(peers, 1))
        assert.equal("", notes:take(peers, 1))
        assert.equal(1, recorder:in_flight(2))
        assert.equal("s2 1/20", notes:take(peers, 1))
    end)

    it("are the last eight, and of those that still are there", function()
        local _, peers, recorder, notes = recorder_of(20)
        for cell = 1, 20 do
            recorder:in_flight(cell)
        end
        table.remove(peers, 15)
        assert.equal("s17 0/170, s18 0/180, s19 0/190, s20 0/200, s13 0/130, s14 0/140, s16 0/160",
                     notes:take(peers, 1))
    end)

    it("leave the stats as they are", function()
        local stats, _, recorder = recorder_of(2)
        recorder:raise(1)
        assert.equal(1, stats:in_flight(1))
        stats:set_others(1, 5)
        recorder:trust_others(true)
        assert.equal(6, recorder:in_flight(1))
        recorder:trust_others(false)
        assert.equal(1, recorder:in_flight(1))
        recorder:keep_levels()
        assert.truthy(stats.by_level)
        recorder:note_reported(1, 7, 100)
        recorder:trust_reported(100, 1)
        assert.same({ 8, 8 }, { recorder:in_flight(1), stats:in_flight(1) })
        recorder:trust_others(false)
        assert.same({ 1, 1 }, { recorder:in_flight(1), stats:in_flight(1) })
    end)
end)
