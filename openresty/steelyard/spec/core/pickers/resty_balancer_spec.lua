--- The adapters to lua-resty-balancer, against a stand-in for it.

local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local pickers = require "steelyard.core.pickers"

local CONTEXT = { random = math.random, stats = fixtures.stats(), now = function() return 0 end }
local NAMES = { "roundrobin", "swrr" }

local peers = fixtures.peers


--- Make require("resty.NAME") do this, and no more than that.
local function stand_in(name, loader)
    package.loaded["resty." .. name] = nil
    package.preload["resty." .. name] = loader
end


local function copy(nodes)
    local copied = {}
    for id, weight in pairs(nodes) do
        copied[id] = weight
    end
    return copied
end


--- A library that records its calls, and finds the node in `answer`.
local function recording(name, answer)
    local calls = {}
    local library = {}
    function library.new(_, nodes)
        calls[#calls + 1] = { "new", copy(nodes) }
        return setmetatable({}, { __index = library })
    end
    function library.reinit(_, nodes)
        calls[#calls + 1] = { "reinit", copy(nodes) }
    end
    function library.set(_, id, weight)
        calls[#calls + 1] = { "set", id, weight }
    end
    function library.find(_, key)
        return answer(key)
    end
    stand_in(name, function() return library end)
    return calls
end


local function first()
    return "a"
end


describe("lua-resty-balancer", function()
    after_each(function()
        for _, name in ipairs(NAMES) do
            stand_in(name, nil)
        end
    end)

    for _, name in ipairs(NAMES) do
        it("is named if it is missing: " .. name, function()
            stand_in(name, function() error("module 'resty." .. name .. "' not found") end)
            local picker, used, err = pickers.make(name, CONTEXT)
            picker:update(peers("a", 1))
            assert.equal("a", picker:pick("key").id)
            assert.equal("vnswrr2", used)
            assert.equal("picker " .. name .. " needs lua-resty-balancer: opm get openresty/lua-resty-balancer"
                         .. " (or luarocks install lua-resty-balancer)", err)
        end)

        it("finds an id and we hand out the peer: " .. name, function()
            local asked
            recording(name, function(key)
                asked = key
                return "b"
            end)
            local picker, used, err = pickers.make(name, CONTEXT)
            assert.equal(name, used)
            assert.is_nil(err)
            local list = peers("a", 1, "b", 1)
            picker:update(list)
            assert.equal(list[2], picker:pick("key"))
            assert.equal("key", asked)
            assert.equal(0, picker:grow(10))
        end)

        it("is left alone while no weight changes, and addresses change all the same: " .. name, function()
            local calls = recording(name, first)
            local picker = pickers.make(name, CONTEXT)
            picker:update(peers("a", 1, "b", 1))
            local moved = peers("a", 1, "b", 1)
            moved[1].address = "new:80"
            picker:update(moved)
            assert.equal("new:80", picker:pick("key").address)
            assert.equal(1, #calls)
        end)

        it("is never asked without nodes: " .. name, function()
            local calls = recording(name, function() error("asked") end)
            local picker = pickers.make(name, CONTEXT)
            assert.is_nil(picker:pick("key"))
            picker:update({})
            assert.is_nil(picker:pick("key"))
            picker:update(peers("a", 1))
            picker:update({})
            assert.is_nil(picker:pick("key"))
            assert.equal(1, #calls)
        end)

        it("keeps the old peers while an update breathes, and the later update wins: " .. name, function()
            local calls = recording(name, first)
            local picker = pickers.make(name, CONTEXT)
            picker:update(peers("a", 1))
            local list = { { id = "a", weight = 2, cell = 1 } }
            for i = 2, 300 do
                list[i] = { id = string.format("s%03d", i), weight = i, cell = i }
            end
            local began = false
            picker:update(list, function()
                assert.equal(1, picker:pick("key").weight)
                if not began then
                    began = true
                    picker:update(peers("a", 1, "z", 1))
                end
            end)
            assert.equal(1, picker:pick("key").weight)
            assert.equal(2, #calls)
        end)
    end

    it("that is there but does not load says why", function()
        stand_in("swrr", function() error("can not load it", 0) end)
        local _, used, err = pickers.make("swrr", CONTEXT)
        assert.equal("vnswrr2", used)
        assert.truthy(string.find(err, "; it is there, but: can not load it", 1, true))
    end)

    for _, name in ipairs({ "roundrobin", "swrr" }) do
        it("gets the weights as they are: " .. name, function()
            local calls = recording(name, first)
            local picker = pickers.make(name, CONTEXT)
            picker:update(peers("a", 500, "b", 100))
            picker:update(peers("a", 500, "b", 101))
            assert.same({ { "new", { a = 500, b = 100 } }, { "reinit", { a = 500, b = 101 } } }, calls)
            assert.is_nil(picker.wants_key)
        end)
    end
end)
