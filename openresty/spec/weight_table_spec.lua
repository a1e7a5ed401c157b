local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local GOOD = '{"v":1,"upstream":"web","term":3,"generation":118,"issued_at_ms":1790000000000,"law":"steelyard",'
    .. '"picker":"vnswrr","peers":[{"id":"b","address":"10.0.0.12:80","weight":2,"baseline":1,"state":"up"},'
    .. '{"id":"a","address":"[fd00::13]:8080","weight":1,"baseline":1,"state":"drain"}]}'


local function reason_of(text)
    local taken, refused = weight_table.decode(text)
    assert.is_nil(taken)
    assert.is_string(refused.detail)
    return refused.reason
end


describe("a decoded weight table", function()
    it("has its peers in id order, with ip and port as nginx takes them", function()
        local peers = weight_table.decode(GOOD).peers
        assert.same({ "a", "[fd00::13]", 8080 }, { peers[1].id, peers[1].ip, peers[1].port })
        assert.same({ "b", "10.0.0.12", 80 }, { peers[2].id, peers[2].ip, peers[2].port })
    end)

    it("may be written over several lines", function()
        assert.truthy(weight_table.decode((GOOD:gsub(",", ",\r\n\t"))))
    end)

    it("keeps milliseconds exactly", function()
        assert.equal(1790000000000, weight_table.decode(GOOD).issued_at_ms)
    end)
end)


describe("the decoder refuses", function()
    local function with(from, to)
        local text, n = GOOD:gsub(from, to, 1)
        assert.equal(1, n)
        return text
    end

    local cases = {
        { "two megabytes of zeros", "too_large", ("0"):rep(2 * 1024 * 1024) },
        { "a megabyte of open brackets", "not_json", ("["):rep(1024 * 1024) },
        { "a hexadecimal number", "not_json", with("118", "0x76") },
        { "a raw control character", "not_json", with("steelyard", "steel\2yard") },
        { "a raw line end in a string", "not_json", with("steelyard", "steel\nyard") },
        { "a raw tab after an escaped quote", "not_json", with("steelyard", '\\\\"\t') },
        { "a NUL after the end", "not_json", GOOD .. "\0" },
        { "an infinite generation", "type", with("118", "1e999") },
        { "a generation beyond a double's integers", "range", with("118", "9007199254740994") },
        { "a null weight", "type", with('"weight":2', '"weight":null') },
        { "a null id", "name", with('"id":"b"', '"id":null') },
        { "a null list of peers", "type", with('"peers":.*', '"peers":null}') },
        { "an empty object for peers", "type", with('"peers":.*', '"peers":{}}') },
        { "an array for a peer", "type", with('"peers":.*', '"peers":[["a"]]}') },
        { "an empty array at the top", "not_object", "[]" },
        { "an empty object", "missing", "{}" },
        { "an address that is too long", "range", with("10.0.0.12:80", ("1"):rep(200)) },
        { "an octal-looking address", "range", with("10.0.0.12:80", "010.0.0.12:80") },
    }
    for _, case in ipairs(cases) do
        it(case[1] .. " (" .. case[2] .. ")", function()
            assert.equal(case[2], reason_of(case[3]))
        end)
    end
end)


describe("the decoder is total", function()
    local REASONS = { too_large = true, not_json = true, not_object = true, version = true,
                      missing = true, type = true, range = true, name = true }

    local function survives(text)
        local taken, refused = weight_table.decode(text)
        assert.is_true(taken ~= nil or REASONS[refused.reason] == true, text)
    end

    it("on every prefix of a good table", function()
        for n = 0, #GOOD - 1 do
            survives(GOOD:sub(1, n))
        end
    end)

    it("on 20,000 tables with bytes changed at random", function()
        math.randomseed(7)
        for _ = 1, 20000 do
            local text = GOOD
            for _ = 1, math.random(1, 4) do
                local at = math.random(#text)
                text = text:sub(1, at - 1) .. string.char(math.random(0, 255)) .. text:sub(at + math.random(0, 2))
            end
            survives(text)
        end
    end)

    it("on 20,000 tables with a value replaced by another kind of value", function()
        local values = { "null", "true", "-1", "0", "1.5", "1e308", "1e999", "[]", "{}", "[[]]", '""', '"a b"',
                         '"' .. ("x"):rep(70) .. '"', "[null]", '{"a":1}', "123456789012345678901234567890" }
        math.randomseed(8)
        local spans = {}
        for from, to in GOOD:gmatch('"():()') do
            spans[#spans + 1] = { from, to }
        end
        for _ = 1, 20000 do
            local _, at = unpack(spans[math.random(#spans)])
            local rest = GOOD:sub(at)
            local replaced = rest:gsub('^("?)[^,%]}]*', values[math.random(#values)], 1)
            survives(GOOD:sub(1, at - 1) .. replaced)
        end
    end)

    it("and still raises for a bug of its own", function()
        assert.has_error(function()
            wire.total(function() return nil + 1 end, "")
        end)
    end)
end)


describe("the order of tables", function()
    local function compare(a, b)
        return weight_table.compare({ term = a[1], generation = a[2] }, { term = b[1], generation = b[2] })
    end

    it("is by term and then by generation", function()
        assert.equal(-1, compare({ 3, 118 }, { 3, 119 }))
        assert.equal(1, compare({ 4, 1 }, { 3, 119 }))
        assert.equal(-1, compare({ 2, 500 }, { 3, 1 }))
        assert.equal(0, compare({ 3, 118 }, { 3, 118 }))
    end)
end)
