local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local pickers = require "steelyard.core.pickers"

local CONTEXT = { random = math.random, stats = fixtures.stats(), now = function() return 0 end }


describe("the picker of a name", function()
    for _, name in ipairs(fixtures.own()) do
        it("is there: " .. name, function()
            local picker, used, err = pickers.make(name, CONTEXT)
            assert.equal(name, used)
            assert.is_nil(err)
            picker:update(fixtures.peers("a", 1))
            assert.equal("a", picker:pick().id)
        end)
    end

    it("is vnswrr2 if none is asked for", function()
        local picker, used, err = pickers.make(nil, CONTEXT)
        assert.truthy(picker)
        assert.equal("vnswrr2", used)
        assert.is_nil(err)
    end)

    it("may be a module of nginx.conf's own, and is vnswrr2 if that cannot be made", function()
        local made_with
        local module = { name = "mine", new = function(context) made_with = context return {} end }
        local picker, used, err
        used, err = select(2, pickers.make(module, CONTEXT))
        assert.same({ CONTEXT, "mine" }, { made_with, used, err })
        module.new = function() return 5 end
        assert.same({ "vnswrr2", "picker mine: 5" }, { select(2, pickers.make(module, CONTEXT)) })
        module.new = function() error("no table", 0) end
        picker, used, err = pickers.make(module, CONTEXT)
        assert.truthy(picker.pick)
        assert.same({ "vnswrr2", "picker mine: no table" }, { used, err })
    end)

    it("is vnswrr2 if it is not known, and it says which there are", function()
        local picker, used, err = pickers.make("fastest", CONTEXT)
        picker:update(fixtures.peers("a", 1))
        assert.equal("a", picker:pick().id)
        assert.equal("vnswrr2", used)
        local names = {}
        for i, each in ipairs(pickers.all()) do
            names[i] = each.name
        end
        assert.equal("there is no picker fastest; there are: " .. table.concat(names, ", "), err)
        assert.matches("chash, .*vnswrr, vnswrr2", err)
    end)
end)
