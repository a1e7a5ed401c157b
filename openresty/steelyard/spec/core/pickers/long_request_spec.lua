--- One long request among short ones: the share of its server afterwards.
--
-- 10 equal servers, 50 requests/s of 2 ms each, and one request with an answer after 10 s. Requests arrive evenly; the
-- clock is the simulation's.

local closed = require "openresty.steelyard.spec.support.closed_simulation"
local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local pickers = require "steelyard.core.pickers"

local SERVERS, GAP_S, SHORT_S, LONG_S = 10, 0.02, 0.002, 10


--- Return the picks of the long request's server in each second after its end, and of all servers together.
-- @param before requests before the long one
local function picks_after(name, before, seconds)
    local rows = {}
    for i = 1, SERVERS do
        rows[i] = { "server-" .. i - 1, 1 }
    end
    local stats, peers, now = closed.stats(SERVERS), closed.peers(rows), 1e9
    local picker = assert(pickers.make(name, {
        random = math.random, stats = stats, now = function() return now end,
    }))
    picker:update(peers)

    local function short()
        local peer = picker:pick()
        local in_flight = stats:in_flight(peer.cell)
        stats:raise(peer.cell)
        now = now + SHORT_S
        stats:lower(peer.cell)
        stats:observe(peer.cell, SHORT_S * 1000, true, now, in_flight)
        now = now + GAP_S - SHORT_S
        return peer.id
    end

    for _ = 1, before do
        short()
    end
    local long, began = picker:pick(), now
    stats:raise(long.cell)
    while now < began + LONG_S do
        short()
    end
    stats:lower(long.cell)
    stats:observe(long.cell, (now - began) * 1000, true, now, 0)

    local own, each = {}, 1 / GAP_S
    for second = 1, seconds do
        own[second] = 0
        for _ = 1, each do
            own[second] = own[second] + (short() == long.id and 1 or 0)
        end
    end
    return own, each
end


for _, name in ipairs(fixtures.own()) do
    describe("after one request of 10 s, " .. name, function()
        it("gives its server the share that it had, in the first second", function()
            local own, each = picks_after(name, 500, 3)
            for second = 1, #own do
                assert.is_true(own[second] >= each / SERVERS / 2, second .. ": " .. own[second])
            end
        end)

        it("gives its server its share when nothing was known of it before", function()
            local own, each = picks_after(name, 0, 3)
            for second = 1, #own do
                assert.is_true(own[second] >= each / SERVERS / 2, second .. ": " .. own[second])
            end
        end)
    end)
end
