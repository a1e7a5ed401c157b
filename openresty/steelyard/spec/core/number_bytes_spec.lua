local ffi = require "ffi"
local number_bytes = require "steelyard.core.number_bytes"

local function read(as, text)
    return number_bytes[as](ffi.cast("const unsigned char *", text), #text)
end


describe("nginx's bytes of one number", function()
    it("are a status", function()
        for _, status in ipairs({ 100, 101, 200, 304, 499, 500, 599, 999 }) do
            assert.equal(status, read("status", tostring(status)))
        end
    end)

    it("are a time in milliseconds", function()
        for ms = 0, 9999, 7 do
            assert.equal(ms, read("milliseconds", string.format("%.3f", ms / 1000)))
        end
    end)

    it("differ from those of several tries, of none, and of ten seconds or more", function()
        for _, text in ipairs({ "", "-", "-, -", "- : -", "200, 200", "200 : 200", "502, 200", "-, 200" }) do
            assert.is_nil(read("status", text))
        end
        for _, text in ipairs({ "", "-", "-, -", "- : -", "10.000", "0.001, 0.002", "0.001 : 0.002", "-, 0.001" }) do
            assert.is_nil(read("milliseconds", text))
        end
        assert.is_nil(number_bytes.status(nil, 0))
        assert.is_nil(number_bytes.milliseconds(nil, 0))
    end)
end)
