--- vnswrr2 and the servers' own reports of their requests in flight.

local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"

local T, N = 1e9, 10


--- A picker over N peers of weight 7, with requests of 50 ms, and a clock that can be set.
local function made(name)
    local self = { now = T, stats = peer_stats.new(peer_stats.local_memory(N + 1, 2), 2, N + 1, 1), peers = {} }
    for cell = 1, N do
        self.stats:observe(cell, 50, true, T)
        self.stats:observe(cell, 50, true, T)
        self.peers[cell] = { id = string.format("%03d", cell), address = cell .. ":80", weight = 7, cell = cell }
    end
    self.picker = pickers.make(name or "vnswrr2", {
        stats = self.stats, random = math.random, now = function() return self.now end,
    })
    self.picker:update(self.peers)

    --- Each peer reports its requests in flight a number of times.
    function self.say(in_flight, times)
        for _ = 1, times or 100 do
            for cell = 1, N do
                self.picker:note_reported(self.peers[cell], in_flight(cell), self.now)
            end
        end
    end

    --- Return the part of 2000 picks at each peer; all requests end at once.
    function self.shares()
        local counts = {}
        for cell = 1, N do
            counts[cell] = 0
        end
        for _ = 1, 2000 do
            local cell = self.picker:pick().cell
            counts[cell] = counts[cell] + 1 / 2000
        end
        return counts
    end

    return self
end


describe("vnswrr2, with servers that report their requests in flight,", function()
    before_each(function() math.randomseed(1) end)

    it("avoids a peer with more than its part", function()
        local group = made()
        group.say(function(cell) return cell <= 5 and 9 or 1 end)
        local shares, busy = group.shares(), 0
        for cell = 1, 5 do
            busy = busy + shares[cell]
        end
        assert.is_true(busy < 0.05, busy)
    end)

    it("counts its own requests there once", function()
        local group = made()
        group.stats:raise(1)
        group.stats:raise(1)
        group.say(function(cell) return cell == 1 and 5 or 3 end)
        group.stats:trust_reported(T, 0.4)
        assert.near(2, group.stats:in_flight(1), 1e-5) -- its own; three of others, as everywhere
        assert.near(0, group.stats:in_flight(2), 1e-5)
    end)

    it("forgets it within some times that a request takes, and a silent one is taken for its part", function()
        local group = made()
        group.say(function(cell) return cell == 1 and 100 or 10 end)
        assert.equal(0, group.shares()[1])
        group.stats:trust_reported(T + 0.4, 0.4)
        local faded = group.stats:in_flight(1)
        assert.near(math.exp(-1), faded / group.stats.reported[2], 1e-5)
        group.now = T + 1.3 -- three times 8 requests
        local shares = group.shares()
        for cell = 1, N do
            assert.near(0.1, shares[cell], 0.03)
        end
        assert.equal(0, group.stats:in_flight(1))
    end)

    it("is moved little by one that says anything", function()
        local group = made()
        group.say(function(cell) return cell == 1 and 1e9 or 1 end)
        assert.near(1.25, group.picker.candidates.reported_mean * 7, 0.1) -- and not 1
        local shares = group.shares()
        assert.equal(0, shares[1])
        for cell = 2, N do
            assert.near(1 / 9, shares[cell], 0.03)
        end
    end)

    it("behind one load balancer alone picks as without", function()
        local seen = {}
        for _, tells in ipairs({ true, false }) do
            math.randomseed(5)
            local group, picks = made(), {}
            for i = 1, 100 do
                local peer = group.picker:pick()
                picks[i] = peer.cell
                group.stats:raise(peer.cell)
                if tells then
                    group.picker:note_reported(peer, group.stats:own(peer.cell), T)
                end
            end
            seen[#seen + 1] = picks
        end
        assert.same(seen[2], seen[1])
    end)

    it("is the only one that goes by it, and not if requests are priced", function()
        for _, name in ipairs({ "least_conn", "peak_ewma", "hcl" }) do
            local group = made(name)
            group.say(function(cell) return cell == 1 and 100 or 1 end)
            group.picker:pick()
            assert.equal(0, group.stats:in_flight(1))
        end
        local group = made()
        assert.is_false(group.stats:by_cost().reported)
    end)

    it("does not apply the report of a cell's previous server", function()
        local group = made()
        group.say(function(cell) return cell == 1 and 100 or 1 end)
        group.stats:forget(1)
        group.stats:trust_reported(T, 0.4)
        assert.equal(0, group.stats:in_flight(1))
    end)
end)
