local ffi = require "ffi"
local peer_stats = require "steelyard.core.peer_stats"
local slow_servers = require "steelyard.core.slow_servers"

-- A time after 1970.
local T = 1e9


local function new()
    return slow_servers.new(ffi.new("uint8_t[?]", slow_servers.bytes(3)))
end


--- The seconds from T at which a slow server is tried, if its turn comes each 0.1 s.
-- @param took_s of an answer
local function tried_at(until_s, took_s)
    local slow, last_at, tries = new(), T, {}
    for turn = 0, until_s * 10 do
        local now = T + turn / 10
        if now >= last_at and slow:may_be_tried(1, now, last_at, took_s) then
            tries[#tries + 1] = turn / 10
            last_at = now + took_s
        end
    end
    return tries
end


describe("a slow server", function()
    it("is tried after a second, and then after as long as it has been slow", function()
        assert.same({ 1, 2.6, 5.8, 12.2, 25 }, tried_at(40, 0.3))
    end)

    it("is remembered while it takes over a minute to answer", function()
        assert.same({ 1, 124, 370 }, tried_at(400, 61))
    end)

    it("begins anew if it was not found slow for a minute, and in another server's cell", function()
        local slow = new()
        assert.is_false(slow:may_be_tried(1, T, T, 0.3))
        assert.is_false(slow:may_be_tried(1, T + 30, T + 20, 0.3))
        assert.is_false(slow:may_be_tried(1, T + 91, T + 90, 0.3))
        assert.is_true(slow:may_be_tried(1, T + 92, T + 90, 0.3))
        assert.is_false(slow:may_be_tried(2, T, T, 0.3))
        slow:forget(2)
        assert.is_false(slow:may_be_tried(2, T + 31, T + 30, 0.3))
        assert.is_true(slow:may_be_tried(2, T + 32, T + 30, 0.3))
    end)

    it("is tried as seldom by many workers that have few requests each", function()
        local memory, workers, tries = peer_stats.local_memory(3, 64), {}, 0
        for w = 1, 64 do
            workers[w] = peer_stats.new(memory, 64, 3, w - 1)
        end
        workers[1]:observe(1, 300, true, T)
        workers[1]:observe(1, 300, true, T)
        for second = 1, 40 do
            local one = workers[second]
            if one:may_be_tried(1, T + second) then
                tries = tries + 1
                one:observe(1, 300, true, T + second)
            end
        end
        assert.equal(6, tries) -- at 2, 3, 5, 9, 17 and 33 s
    end)

    it("does not rest for ever if the clock is set back", function()
        local slow = new()
        assert.is_false(slow:may_be_tried(1, T, T, 0.3))
        assert.is_false(slow:may_be_tried(1, T - 100, T, 0.3))
        assert.is_true(slow:may_be_tried(1, T + 1, T, 0.3))
    end)

    it("is well after one quick answer to such a try", function()
        local stats = peer_stats.new(peer_stats.local_memory(3, 2), 2, 3, 0)
        for _ = 1, 2 do
            stats:observe(1, 300, true, T)
            stats:observe(2, 300, true, T)
        end
        assert.is_false(stats:may_be_tried(1, T))
        assert.is_true(stats:may_be_tried(1, T + 3))
        stats:raise(1)
        assert.is_false(stats:may_be_tried(1, T + 3)) -- one at a time
        stats:lower(1)
        stats:observe(1, 2, true, T + 3)
        stats:observe(2, 2, true, T + 3) -- never found slow: one quick answer proves nothing
        assert.equal(2, stats:latency(1, T + 3))
        assert.is_true(stats:latency(2, T + 3) > 200)
        stats:observe(1, 300, true, T + 6)
        assert.is_true(stats:latency(1, T + 6) < 5)
    end)
end)
