--- Shares are right from the first pick after an update.
--
-- order_spec shows that they are exact over all starts; here starts are drawn.
-- With one pick each a share's sigma is at most 0.5/sqrt(REBUILDS), so 1 % is
-- 4.9 sigma.

local split = require "resty.vnswrr.split"
local vnswrr = require "resty.vnswrr"

local REBUILDS = 60000

local WEIGHTS = { a = 100, b = 90, c = 10, d = 5, e = 5 }


--- Begin REBUILDS times; `begin` returns a function for one pick.
local function shares(begin, picks)
    math.randomseed(20260921)
    local seen = { a = 0, b = 0, c = 0, d = 0, e = 0 }
    for _ = 1, REBUILDS do
        local pick = begin()
        for _ = 1, picks do
            local id = pick()
            seen[id] = seen[id] + 1
        end
    end
    for id, times in pairs(seen) do
        seen[id] = times / (REBUILDS * picks)
    end
    return seen
end


local function assert_due(parts)
    for id, weight in pairs(WEIGHTS) do
        assert.is_true(math.abs(parts[id] - weight / 210) < 0.01, id .. " has " .. parts[id])
    end
end


describe("parts right after an update", function()
    for _, picks in ipairs({ 1, 10 }) do
        it("are within 1 % of all, with " .. picks .. " picks each", function()
            local ring = vnswrr:new({}, { random = math.random, max_init = picks })
            local function pick()
                return ring:find()
            end
            assert_due(shares(function()
                ring:reinit({ z = 1 }) -- equal nodes would not restart the ring
                ring:reinit(WEIGHTS)
                return pick
            end, picks))
        end)

        it("are within 1 % of all in the split order too, with " .. picks .. " picks each", function()
            local ids, weights = { "a", "b", "c", "d", "e" }, { 100, 90, 10, 5, 5 }
            local order
            local function pick()
                return ids[order:next()]
            end
            assert_due(shares(function()
                order = split.new(weights, 210, math.random(210) - 1, function() end)
                return pick
            end, picks))
        end)
    end
end)
