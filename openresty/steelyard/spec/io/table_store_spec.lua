local shared_dict = require "steelyard.io.shared_dict"
local table_store = require "steelyard.io.table_store"

local VERSION = { term = 1, generation = 1 }


--- A dict that stores values of up to `room` bytes, and keeps their sizes.
local function small_dict(room)
    local kept = {}
    local dict = {
        get = function(_, key) return kept[key] end,
        set = function(_, key, value)
            kept[key] = nil
            if type(value) == "string" and #value > room then
                return false, shared_dict.FULL
            end
            kept[key] = value
            return true
        end,
        incr = function(_, key, by, init)
            kept[key] = (kept[key] or init) + by
            return kept[key]
        end,
        add = function() return false, shared_dict.FULL end,
    }
    dict.bulk = dict
    return dict, kept
end


describe("the table store", function()
    it("gives back the text as it was", function()
        local store = table_store.new(small_dict(10000))
        assert.is_nil(store:table_text("web"))
        store:publish("web", '{"a":  1}', VERSION, "memcached", 0)
        assert.equal('{"a":  1}', store:table_text("web"))
    end)

    it("writes a text with more or fewer digits in the same place", function()
        local dict, kept = small_dict(10000)
        local store, sizes = table_store.new(dict), {}
        for _, digits in ipairs({ 3000, 3010, 2990, 3030 }) do
            store:publish("web", string.rep("7", digits), VERSION, "memcached", 0)
            sizes[#kept["table/web"]] = true
            assert.equal(digits, #store:table_text("web"))
        end
        local size = next(sizes)
        assert.is_nil(next(sizes, size))
        assert.is_true(size > 3030)
    end)

    it("keeps the last text if the next one finds no room", function()
        local store = table_store.new(small_dict(5000))
        assert.equal(1, store:publish("web", "old", VERSION, "memcached", 0))
        assert.is_nil(store:publish("web", string.rep("7", 6000), VERSION, "memcached", 1))
        assert.equal("old", store:table_text("web"))
        assert.equal(1, store:version("web"))
        assert.equal(0, store:arrived_at("web"))
    end)

    it("notes an outcome once even if the dict has no room for it", function()
        local dict = small_dict(0)
        local store = table_store.new(dict)
        assert.is_true(store:outcome_changed("web", "no_room"))
        assert.is_false(store:outcome_changed("web", "no_room"))
        assert.is_true(store:outcome_changed("web", "ok"))
    end)
end)
