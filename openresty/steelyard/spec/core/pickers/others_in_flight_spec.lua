--- Pickers and the requests of other load balancers, and the most harm of forged figures.

local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local others_in_flight = require "steelyard.core.others_in_flight"
local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"

local T, N = 1e9, 10


--- A picker over n peers of equal weight, with requests of 100 ms, and with requests of others by cell.
local function picker_of(name, n, in_flight, age_s)
    local stats = peer_stats.new(peer_stats.local_memory(n + 1), 1, n + 1, 0)
    local others = others_in_flight.new(nil, n + 1)
    local peers = {}
    for cell = 1, n do
        stats:observe(cell, 100, true, T)
        stats:observe(cell, 100, true, T)
        stats:set_others(cell, in_flight(cell))
        local id = string.format("%03d", cell)
        peers[cell] = { id = id, address = "10.0.0." .. cell .. ":80", weight = 7, cell = cell }
    end
    if age_s then
        others:read(T, age_s)
        others:look(T)
    end
    local picker = pickers.make(name, {
        stats = stats, random = math.random, now = function() return T end, others = others,
    })
    picker:update(peers)
    return picker, stats, others
end


--- The share of each cell in 4000 picks that end at once.
local function shares_of(picker)
    local counts = {}
    for _ = 1, 4000 do
        local cell = picker:pick().cell
        counts[cell] = (counts[cell] or 0) + 1
    end
    return function(cell) return (counts[cell] or 0) / 4000 end
end


local function all_busy_but_one(cell)
    return cell == 1 and 0 or 100000
end


for _, name in ipairs(fixtures.own(true)) do
    describe("picker " .. name .. ", with the requests of others in flight,", function()
        before_each(function() math.randomseed(1) end)

        it("avoids a peer that is busy for others", function()
            local share = shares_of(picker_of(name, N, function(cell) return cell <= 5 and 3 or 0 end, 0.005))
            local busy = 0
            for cell = 1, 5 do
                busy = busy + share(cell)
            end
            assert.is_true(busy < 0.3, busy)
        end)

        it("goes by its own alone if the figures are too old, or there are none", function()
            for _, age_s in ipairs({ false, 1 }) do
                local share = shares_of(picker_of(name, N, all_busy_but_one, age_s))
                for cell = 1, N do
                    assert.near(0.1, share(cell), 0.03)
                end
            end
        end)

        it("gives no peer more than six times its weight's share, with any forged figures", function()
            local share = shares_of(picker_of(name, N, all_busy_but_one, 0.001))
            assert.is_true(share(1) < 0.62, share(1))
            share = shares_of(picker_of(name, 100, all_busy_but_one, 0.001))
            assert.is_true(share(1) < 0.075, share(1))
        end)
    end)
end


describe("a tie beside other load balancers", function()
    it("goes by latency only while their requests in flight are not known", function()
        local picker, stats, others = picker_of("vnswrr2", 2, function() return 0 end)
        for _ = 1, 20 do
            stats:observe(1, 300, true, T)
        end
        picker:note_others(true)
        local function share_of_slow()
            picker:pick() -- the next ones know whether there are figures
            return shares_of(picker)(1)
        end
        assert.is_true(share_of_slow() < 0.1)
        others:read(T, 0.005)
        others:look(T)
        assert.is_true(share_of_slow() > 0.4)
        others:forget()
        others:look(T)
        assert.is_true(share_of_slow() < 0.1)
        picker:note_others(false)
        assert.is_true(share_of_slow() > 0.4)
    end)
end)


describe("max_conns", function()
    it("counts this nginx's requests alone", function()
        local _, stats = picker_of("vnswrr2", 2, function() return 9 end, 0.005)
        stats:trust_others(true)
        stats:raise(1)
        assert.same({ 10, 1 }, { stats:in_flight(1), stats:own(1) })
    end)
end)
