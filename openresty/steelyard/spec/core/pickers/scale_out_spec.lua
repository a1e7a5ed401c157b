--- Endless sessions, and servers that join: new sessions go to these until the load is even for the weights.

local closed = require "openresty.steelyard.spec.support.closed_simulation"
local pickers = require "steelyard.core.pickers"

local PER_WEIGHT = 100


--- Open sessions, PER_WEIGHT for each unit of weight, at two thirds of the servers. Then the others join, and as many
-- more sessions come as even the load out.
-- @return the largest distance of a server from an even load, as a share
local function after_scale_out(name, servers, weight_of)
    local rows, old, weight_of_old, weight_of_new = {}, servers / 3 * 2, 0, 0
    for i = 1, servers do
        rows[i] = { string.format("server-%02d", i), weight_of(i) }
        if i <= old then
            weight_of_old = weight_of_old + weight_of(i)
        else
            weight_of_new = weight_of_new + weight_of(i)
        end
    end
    local stats, peers = closed.stats(servers), closed.peers(rows)
    local picker = assert(pickers.make(name, { random = math.random, stats = stats, now = function() return 0 end }))
    local function open(count)
        for _ = 1, count do
            stats:raise(picker:pick().cell)
        end
    end
    picker:update({ unpack(peers, 1, old) })
    open(PER_WEIGHT * weight_of_old)
    picker:update(peers)
    open(PER_WEIGHT * weight_of_new)
    local worst = 0
    for _, peer in ipairs(peers) do
        worst = math.max(worst, math.abs(stats:in_flight(peer.cell) / peer.weight / PER_WEIGHT - 1))
    end
    return worst
end


describe("sessions after a scale-out are even with", function()
    for _, name in ipairs({ "least_conn", "hcl", "vnswrr2" }) do
        for _, servers in ipairs({ 6, 60 }) do
            it(name .. ": " .. servers .. " equal servers", function()
                local worst = after_scale_out(name, servers, function() return 1 end)
                assert.is_true(worst < 0.05, "one is off by " .. worst)
            end)

            it(name .. ": " .. servers .. " servers of weights 1 to 5", function()
                local worst = after_scale_out(name, servers, function(i) return i % 5 + 1 end)
                assert.is_true(worst < 0.05, "one is off by " .. worst)
            end)
        end
    end
end)
