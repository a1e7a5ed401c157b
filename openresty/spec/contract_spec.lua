-- docs/contract/*.json: the same examples that the Python side is tested on.

local json = require "steelyard.core.json"
local ladder = require "steelyard.core.ladder"
local traffic = require "steelyard.core.traffic"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local function contract(name)
    local file = assert(io.open("docs/contract/" .. name) or io.open("../docs/contract/" .. name))
    local text = file:read("*a")
    file:close()
    return assert(json.decode(text))
end


describe("a weight table in docs/contract", function()
    local examples = contract("weights.json")

    for _, example in ipairs(examples.accepted) do
        it("is accepted: " .. example.about, function()
            local value = example.value
            -- An empty list would come out as {}.
            local text = json.encode(value):gsub('"peers":{}', '"peers":[]')
            local taken, refused = weight_table.decode(text)
            assert.is_nil(refused)
            for _, key in ipairs({ "upstream", "term", "generation", "issued_at_ms", "law", "picker" }) do
                assert.equal(value[key], taken[key])
            end
            assert.equal(value.hash_key, taken.hash_key)
            assert.equal(value.check ~= nil, taken.check ~= nil)
            for key, setting in pairs(value.check or {}) do
                if key == "statuses" and setting ~= json.null then
                    assert.equal(table.concat(setting, ", "), taken.check.statuses_words)
                elseif key == "statuses" then
                    assert.equal("200-399", taken.check.statuses_words)
                elseif key ~= "method" then -- the key of a later minor format
                    assert.equal(setting ~= json.null and setting or nil, taken.check[key])
                end
            end
            assert.equal(#value.peers, #taken.peers)
            for i, peer in ipairs(value.peers) do
                for _, key in ipairs({ "id", "address", "weight", "baseline", "state" }) do
                    assert.equal(peer[key], taken.peers[i][key])
                end
            end
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local taken, refused = weight_table.decode(example.text)
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end
end)


describe("a traffic report in docs/contract", function()
    for _, example in ipairs(contract("traffic.json").accepted) do
        it("is what the encoder writes: " .. example.about, function()
            local value = example.value
            local written = assert(json.decode(assert(traffic.encode(value))))
            value.zone = nil -- the key of a later minor format
            assert.same(value, written)
        end)
    end

    for _, rung in ipairs(ladder.RUNGS) do
        it("tells the rung " .. rung, function()
            assert.truthy(traffic.encode({ rung = rung, peers = {} }):find('"rung":"' .. rung .. '"', 1, true))
        end)
    end

    it("keeps a term that is the time in milliseconds exactly", function()
        local text = traffic.encode({ order = { 1790000000001, 118 }, peers = {} })
        assert.truthy(text:find('"order":[1790000000001,118]', 1, true))
    end)

    it("with no peers has an object and not an array", function()
        local text = traffic.encode({
            upstream = "web", lb = "edge-1", boot = "b", seq = 1, interval_s = 1, peers = {},
        })
        assert.truthy(text:find('"peers":{}', 1, true))
    end)
end)


describe("the keys of version 1", function()
    it("are those of the other side", function()
        assert.equal("steelyard:1:weights:web", wire.weights_key("web"))
        assert.equal("steelyard:1:traffic:web:edge-1", wire.traffic_key("web", "edge-1"))
    end)
end)
