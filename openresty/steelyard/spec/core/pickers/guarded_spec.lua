local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local guarded_picker = require "steelyard.core.pickers.guarded"
local vnswrr = require "steelyard.core.pickers.vnswrr"

local CONTEXT = { random = function() return 1 end, stats = fixtures.stats(), now = function() return 0 end }


--- A guarded picker, and the errors that it reports.
local function guarded(picker)
    local reported = {}
    return guarded_picker.new(picker, "mine", function()
        return vnswrr.new(CONTEXT), "vnswrr"
    end, function(method, problem)
        reported[#reported + 1] = method .. "|" .. problem
    end), reported
end


describe("a guarded picker", function()
    it("passes each call on, with all values", function()
        local calls = {}
        local picker, reported = guarded({
            wants_key = true, by_in_flight = true,
            update = function(_, peers, _, known) calls.update = { peers, known } end,
            pick = function(_, key) return { address = key }, 7 end,
            following = function(_, place) return { address = "next" }, place + 1 end,
            grow = function(_, n) return n - 1 end,
            note_reported = function(_, ...) calls.note = { ... } end,
        })
        picker:update({}, nil, { 1 })
        picker:note_reported("peer", 2, 3)
        assert.same({ update = { {}, { 1 } }, note = { "peer", 2, 3 } }, calls)
        assert.same({ { address = "k" }, 7 }, { picker:pick("k") })
        assert.same({ { address = "next" }, 8 }, { picker:following(7) })
        assert.same({ 4, true, true }, { picker:grow(5), picker.wants_key, picker.by_in_flight })
        assert.equal("mine", picker.in_force)
        assert.same({}, reported)
    end)

    it("has no note_reported if the picker has none", function()
        assert.is_nil(guarded({}).note_reported)
    end)

    it("lets the default picker choose for a request whose pick fails or returns no server", function()
        local answer
        local picker, reported = guarded({ update = function() end, pick = function() return answer() end })
        picker:update(fixtures.peers("a", 1, "b", 1))
        answer = function() error("broken", 0) end
        assert.equal("a", picker:pick().id)
        answer = function() return "a" end
        assert.equal("b", picker:pick().id)
        answer = function() return {} end
        assert.equal("a", picker:pick().id)
        answer = function() return nil end
        assert.is_nil(picker:pick())
        assert.equal("pick|picker mine: pick: broken", reported[1])
        assert.equal("pick|picker mine: pick: it returned no server: a", reported[2])
        assert.equal("mine", picker.in_force)
    end)

    it("survives a picker without methods", function()
        local picker, reported = guarded({})
        picker:update(fixtures.peers("a", 1))
        assert.same({ "a", nil, 0 }, { picker:pick().id, picker:following(1), picker:grow(3) })
        assert.equal("vnswrr", picker.in_force)
        assert.matches("^update|picker mine: update: .*nil", reported[1])
    end)
end)
