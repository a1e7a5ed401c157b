local chunk_reader = require "steelyard.io.chunk_reader"
local no_pause = require("resty.vnswrr").no_pause
local wire = require "steelyard.core.wire"

local OPTIONS = { keys = { tables = {} } }


describe("the reader of chunks", function()
    local held, asked

    local function read(names)
        asked = {}
        return chunk_reader.read(OPTIONS, "web", names, function(keys)
            asked[#asked + 1] = keys
            local values = {}
            for _, key in ipairs(keys) do
                values[key] = held[key]
            end
            return values
        end, no_pause)
    end

    before_each(function()
        chunk_reader.forget("web")
        held = { [wire.key("chunk", "web", "a")] = "A", [wire.key("chunk", "web", "b")] = "B" }
    end)

    it("asks only for missing chunks the next time", function()
        local texts, refused = read({ "a", "b", "c" })
        assert.is_nil(texts)
        assert.equal("absent", refused.reason)
        held = { [wire.key("chunk", "web", "c")] = "C" }
        assert.same({ "A", "B", "C" }, (read({ "a", "b", "c" })))
        assert.same({ { wire.key("chunk", "web", "c") } }, asked)
    end)

    it("asks for nothing if a later table has known chunks alone", function()
        read({ "a", "b", "c" })
        assert.same({ "A", "B" }, (read({ "a", "b" })))
        assert.same({}, asked)
    end)

    it("says why nothing was read", function()
        local _, refused = chunk_reader.read(OPTIONS, "web", { "a" }, function()
            return nil, "10.0.0.5:11211: timeout"
        end, no_pause)
        assert.equal("1 of its 1 chunks are not there: 10.0.0.5:11211: timeout", refused.detail)
    end)
end)
