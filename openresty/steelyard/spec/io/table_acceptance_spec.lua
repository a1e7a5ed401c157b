local no_pause = require("resty.vnswrr").no_pause
local table_acceptance = require "steelyard.io.table_acceptance"
local table_store = require "steelyard.io.table_store"

local OPTIONS = { keys = { tables = {} } }
local TABLE = [[{"v": 1, "upstream": "web", "term": 3, "generation": 118, "issued_at_ms": 1790000000000,
    "reporters": [],
    "law": "steelyard", "picker": "vnswrr", "peers": []}]]


describe("a table from disk", function()
    local kept, dict

    local function accept()
        local store = table_store.new(dict)
        return table_acceptance.accept(OPTIONS, store, "web", TABLE, { name = store.SAVED, from_disk = true }, no_pause)
    end

    before_each(function()
        kept = {}
        dict = {
            get = function(_, key) return kept[key] end,
            set = function(_, key, value)
                kept[key] = value
                return true
            end,
            add = function(_, key, value)
                kept[key] = kept[key] or value
                return true
            end,
            free_space = function() return 1e6 end,
            incr = function(_, key, by, first)
                kept[key] = (kept[key] or first) + by
                return kept[key]
            end,
        }
        dict.bulk = dict
    end)

    it("is published once", function()
        assert.is_true(accept())
        assert.is_false(accept())
        assert.equal(1, kept["version/web"])
    end)

    it("is published by a worker that finds another one in the midst of it", function()
        accept()
        kept["version/web"] = nil
        assert.is_true(accept())
        assert.equal(1, kept["version/web"])
    end)
end)
