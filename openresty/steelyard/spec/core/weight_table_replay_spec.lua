local weight_table = require "steelyard.core.weight_table"

local NOW = 1790000000
local HOUR = 3600

local function issued(seconds_ago)
    return { issued_at_ms = (NOW - seconds_ago) * 1000 }
end


describe("the first signed table of an nginx that has none", function()
    it("is taken as long as Memcached may have kept it, and an hour more for the clocks", function()
        for _, age_s in ipairs({ 0, 1, 24 * HOUR, 25 * HOUR }) do
            assert.is_nil(weight_table.replayed(issued(age_s), NOW))
        end
    end)

    it("is taken from a controller with a clock that is ahead", function()
        assert.is_nil(weight_table.replayed(issued(-30 * 24 * HOUR), NOW))
    end)

    it("is refused when it is older, with its age and the remedy", function()
        local refused = weight_table.replayed(issued(25 * HOUR + 1), NOW)
        assert.equal("replayed", refused.reason)
        assert.truthy(refused.detail:find("issued 25 hours ago", 1, true))
        assert.truthy(refused.detail:find("set it", 1, true))
    end)

    it("is refused if its time is no real time", function()
        assert.equal("replayed", weight_table.replayed({ issued_at_ms = 0 }, NOW).reason)
    end)

    it("is judged for every table that can be decoded", function()
        local text = '{"v":1,"upstream":"web","term":1,"generation":1,"issued_at_ms":9007199254740992,"reporters":[],'
                     .. '"law":"x","picker":"x","peers":[]}'
        assert.is_nil(weight_table.replayed(assert(weight_table.decode(text)), NOW))
    end)
end)
