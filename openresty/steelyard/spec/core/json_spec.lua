local json = require "steelyard.core.json"


describe("JSON that is written", function()
    -- The controller reads `1e+14` as no integer.
    it("has every digit of an integer", function()
        for text, value in pairs({
            ["0"] = 0, ["99999999999999"] = 99999999999999, ["100000000000000"] = 1e14,
            ["-123456789012345"] = -123456789012345, ["9007199254740991"] = 2 ^ 53 - 1, ["9007199254740992"] = 2 ^ 53,
        }) do
            assert.equal(text, json.encode(value))
            assert.equal("[[" .. text .. "]]", json.encode({ { value } }))
            assert.equal('{"order":' .. text .. "}", json.encode({ order = value }))
        end
    end)

    it("keeps all else beside such an integer", function()
        local value = { n = 1e15, list = { 1, json.null, "a/b", 2.5 }, none = json.array({}), text = "1e+15" }
        local text = json.encode(value)
        assert.truthy(text:find('"n":1000000000000000', 1, true))
        assert.truthy(text:find('"none":[]', 1, true))
        local read = json.decode(text)
        assert.same({ 1, json.null, "a/b", 2.5 }, read.list)
        assert.equal("1e+15", read.text)
    end)

    it("has 14 digits of a number that is no such integer", function()
        assert.equal("[0.33333333333333,1e+300,1e+16]", json.encode({ 1 / 3, 1e300, 1e16 }))
    end)
end)


describe("a list that is decoded after another one", function()
    local function list(change)
        local rows = {}
        for i = 1, 100 do
            rows[i] = string.format('{"id":"s%d","weight":%d}', i, i)
        end
        for i, row in pairs(change) do
            rows[i] = row
        end
        return '{"v":1,"peers":[' .. table.concat(rows, ",") .. "]}"
    end

    local function decoded(text, known)
        local document, place = json.decode_in_slices(text, "peers", function() end, known)
        return document and document.peers, place
    end

    --- Return the rows of a list that are decoded after another one.
    local function decoded_again(before, change)
        local rows, again = decoded(list(change), select(2, decoded(list(before)))), {}
        for i = 1, #rows do
            again[i] = rows[i] ~= json.AS_KNOWN and rows[i] or nil
        end
        return again, #rows
    end

    it("has only the rows that changed", function()
        local row = { id = "s7", weight = 12345 }
        assert.same({ [7] = row }, (decoded_again({}, { [7] = '{"id":"s7","weight":12345}' })))
        assert.same({ [7] = row, [100] = row }, (decoded_again({}, {
            [7] = '{"id":"s7","weight":12345}', [100] = '{"id":"s7","weight":12345}',
        })))
        local again, rows = decoded_again({}, { [101] = '{"id":"s7","weight":12345}' })
        assert.same({ [101] = row }, again)
        assert.equal(101, rows)
    end)

    it("has rows behind the end of that list", function()
        local function rows_of(ids)
            return '{"v":1,"peers":[{"id":"' .. table.concat(ids, '"},{"id":"') .. '"}]}'
        end
        local _, known = decoded(rows_of({ "p", "q" }))
        assert.same({ { id = "a" }, { id = "b" }, { id = "c" }, { id = "p" }, { id = "q" } },
                    (decoded(rows_of({ "a", "b", "c", "p", "q" }), known)))
    end)

    it("has all rows after one whose rows cannot be told apart by their boundaries", function()
        for _, odd in ipairs({ '{"id":"},{"}', '{"id":[{},{}]}', '[{},{}]', '{"id": 1}', "7" }) do
            local again = decoded_again({ [50] = odd }, { [7] = '{"id":"s7","weight":12345}' })
            assert.equal("s1", again[1].id)
            assert.equal("s100", again[100].id)
        end
    end)

    it("has all rows after itself if one of its own is such a row", function()
        local _, first = decoded(list({}))
        local rows, second = decoded(list({ [50] = '{"id":"},{"}' }), first)
        assert.equal("},{", rows[50].id)
        assert.not_equal(json.AS_KNOWN, decoded(list({ [50] = '{"id":"},{"}', [60] = "{}" }), second)[1])
    end)
end)
