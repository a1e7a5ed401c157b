local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local no_pause = require("resty.vnswrr").no_pause
local table_head = require "steelyard.core.table_head"

local TABLE = '{"v":1,"upstream":"web","term":3,"generation":118,"issued_at_ms":7,"law":"steelyard","picker":"vnswrr",'
    .. '"check":{"path":"/\\"term\\":9"},"digest":"d1","peers":['
    .. '{"id":"a","address":"10.0.0.1:80","weight":2,"baseline":1,"state":"up"},'
    .. '{"id":"b","address":"10.0.0.2:80","weight":1,"baseline":1,"state":"up"}]}'


local function head(weights, members)
    local made = { upstream = "web", term = 4, generation = 1, issued_at_ms = 1790000000001, digest = "d1" }
    for name, value in pairs(members or {}) do
        made[name] = value
    end
    made.weights = weights
    return made
end


describe("a head put into a table", function()
    it("changes order, time and weights, and nothing else", function()
        local expected = TABLE:gsub('"term":3,"generation":118,"issued_at_ms":7',
                                    '"term":4,"generation":1,"issued_at_ms":1790000000001')
        expected = expected:gsub('"weight":2', '"weight":1000000'):gsub('"weight":1,', '"weight":30,')
        assert.equal(expected, table_head.put_into(TABLE, head({ 1000000, 30 }), no_pause))
    end)

    it("is the same if the rows are known, with weights that changed or did not", function()
        local written = { { weight = 2 }, { weight = 1 } }
        for _, weights in ipairs({ { 2, 1 }, { 2, 30 }, { 7, 1 }, { 2 }, { 2, 1, 1 } }) do
            assert.equal(table_head.put_into(TABLE, head(weights), no_pause),
                         table_head.put_into(TABLE, head(weights), no_pause, written))
        end
    end)

    it("has as many weights as the table rows", function()
        assert.is_nil(table_head.put_into(TABLE, head({ 1 }), no_pause))
        assert.is_nil(table_head.put_into(TABLE, head({ 1, 2, 3 }), no_pause))
    end)

    it("goes into no text that is written in another way", function()
        for from, to in pairs({
            ['"weight":2'] = '"weight": 2', ['"weight":1'] = '"weight":1.5', ['"term":3'] = '"term": 3',
            ['"peers":%['] = '"peers" :[', ['"generation":118'] = '"generation":-1',
        }) do
            local text, n = TABLE:gsub(from, to, 1)
            assert.equal(1, n)
            assert.is_nil(table_head.put_into(text, head({ 1, 2 }), no_pause))
        end
    end)

    it("lets requests in between its rows", function()
        local rows, weights, breathe, breaths = {}, {}, counted_breaths()
        for i = 1, 1000 do
            rows[i], weights[i] = '{"id":"s' .. i .. '","weight":1}', i
        end
        local text = '{"term":1,"generation":1,"issued_at_ms":1,"peers":[' .. table.concat(rows, ",") .. "]}"
        assert.truthy(table_head.put_into(text, head(weights), breathe))
        assert.is_true(breaths() >= 10)
    end)
end)
