local table_chunks = require "steelyard.core.table_chunks"
local wire = require "steelyard.core.wire"

local CHUNK = '{"v":1,"upstream":"web","digest":"d","part":%d,"peers":[{"id":"%s","weight":1}]}'


describe("chunks", function()
    it("of more bytes than a table has are refused before they are joined", function()
        local manifest = {
            upstream = "web", digest = "d", members = "{", term = 1, generation = 1, issued_at_ms = 1, weights = { 1 },
        }
        local texts, long = {}, string.rep("a", wire.MAX_BYTES - 200)
        for part = 1, 9 do
            texts[part] = string.format(CHUNK, part, long)
        end
        local text, refused = table_chunks.join(manifest, texts)
        assert.is_nil(text)
        assert.equal("too_large", refused.reason)
    end)
end)
