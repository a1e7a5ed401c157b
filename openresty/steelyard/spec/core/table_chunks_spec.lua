local no_pause = require("resty.vnswrr").no_pause
local table_chunks = require "steelyard.core.table_chunks"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local CHUNK = '{"v":1,"upstream":"web","digest":"d","part":%d,"peers":[{"id":"%s","weight":1}]}'

local MANIFEST = '{"v":1,"upstream":"web","term":1,"generation":1,"issued_at_ms":1,'
                 .. '"reporters":[],"law":"static","picker":"vnswrr2",'
                 .. '"digest":"d","chunks":["a"],"weights":[1]}'


describe("chunks", function()
    it("that bring other members or fewer weights into the table do not fit their manifest", function()
        local row = '{"id":"%s","address":"10.0.0.1:80","weight":1,"baseline":1,"state":"up"}'
        local chunk = '{"v":1,"upstream":"web","digest":"d","part":1,"peers":[' .. row .. "%s]}"
        local manifest = assert(table_chunks.decode(MANIFEST, no_pause))
        for more, fits in pairs({
            [""] = true,
            [',{"id":"b","address":"10.0.0.2:80","weight" :1,"baseline":1,"state":"up"}'] = false,
            ['],"term":7,"more":[{}'] = false,
        }) do
            local text = assert(table_chunks.join(manifest, { chunk:format("a", more) }, no_pause))
            assert.equal(fits, table_chunks.misfit(assert(weight_table.decode(text)), manifest) == nil)
        end
    end)

    it("that are not written as a controller writes them are refused, and nothing is raised", function()
        local text = MANIFEST:gsub('"chunks":', '"chunks": ')
        local manifest, refused = table_chunks.decode(text, no_pause)
        assert.is_nil(manifest)
        assert.equal("type", refused.reason)
    end)

    it("of more bytes than a table has are refused before they are joined", function()
        local manifest = {
            upstream = "web", digest = "d", members = "{", term = 1, generation = 1, issued_at_ms = 1, weights = { 1 },
        }
        local texts, long = {}, string.rep("a", wire.MAX_BYTES - 200)
        for part = 1, 9 do
            texts[part] = string.format(CHUNK, part, long)
        end
        local text, refused = table_chunks.join(manifest, texts, no_pause)
        assert.is_nil(text)
        assert.equal("too_large", refused.reason)
    end)
end)
