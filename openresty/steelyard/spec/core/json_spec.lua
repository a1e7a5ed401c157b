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
