--- Pickers that go by costs: an expensive request in flight counts by its weight.

local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"

local T, CELLS = 1e9, 5


for _, name in ipairs(fixtures.own(true)) do
    describe("picker " .. name .. ", given costs,", function()
        it("sends cheap requests around an expensive one until they weigh the same", function()
            math.randomseed(1)
            local stats = peer_stats.new(peer_stats.local_memory(CELLS), 1, CELLS, 0)
            local picker = pickers.make(name, {
                stats = stats:by_cost(), random = math.random, now = function() return T end,
            })
            local peers = fixtures.peers("a", 1, "b", 1)
            for _, peer in ipairs(peers) do
                stats:observe(peer.cell, 10, true, T)
                stats:observe(peer.cell, 10, true, T)
            end
            picker:update(peers)
            stats:raise(1)
            stats:weigh(1, 3)
            local picks = { 0, 0 }
            for _ = 1, 14 do -- of a quarter each
                local cell = picker:pick().cell
                picks[cell] = picks[cell] + 1
                stats:raise(cell)
                stats:weigh(cell, -0.75)
            end
            assert.is_true(picks[2] >= 13, picks[1] .. " beside the dear one, " .. picks[2] .. " elsewhere")
        end)
    end)
end
