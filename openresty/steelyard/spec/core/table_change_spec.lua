--- An upstream between two tables: as long as it breathes, the previous one is in force with all that belongs to it.

local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local peer_stats = require "steelyard.core.peer_stats"
local sticky = require "steelyard.core.sticky"
local upstream = require "steelyard.core.upstream"

local PEERS = 250
local SESSIONS = sticky.of_option({ cookie = "route" }, "sticky")


local function new(settings)
    return upstream.new("web", settings, {
        random = function() return 1 end,
        now = function() return 0 end,
        stats = peer_stats.new(peer_stats.local_memory(PEERS + 1), 1, PEERS + 1, 0),
        digest = function(_, text) return text .. string.rep(".", 16) end,
    })
end


--- A table in which everything is named for it, and weighs as told.
local function table_of(name, weight, changes)
    local weight_table = { term = 1, generation = 1, picker = name, peers = {} }
    for field, value in pairs(changes) do
        weight_table[field] = value
    end
    for i = 1, PEERS do
        local id = string.format("%s%03d", changes.prefix, i)
        weight_table.peers[i] = {
            id = id, address = id .. ":80", weight = i * weight, baseline = 1, cell = i,
            state = i == PEERS and changes.last_state or "up", max_conns = changes.own_limits,
        }
    end
    return weight_table
end


--- All fields of an upstream and of its sessions.
local function fields_of(live)
    local fields = {}
    for name, value in pairs(live) do
        fields[name] = value
    end
    for name, value in pairs(live.sticky) do
        fields["sticky." .. name] = value
    end
    return fields
end


local BEFORE = { prefix = "old", max_conns = 1, own_limits = 1, last_state = "backup" }
local AFTER = { prefix = "new", hash_variable = "arg_key", last_state = "drain" }

for _, name in ipairs(fixtures.own()) do
    describe("a change of tables with the picker " .. name, function()
        for direction, tables in pairs({ ["loses limits"] = { BEFORE, AFTER }, ["gets limits"] = { AFTER, BEFORE } }) do
            it("changes nothing before the last breath, if the table " .. direction, function()
                local live = new({ retries = 2, full_status = 503, sticky = SESSIONS })
                local first, second = table_of(name, 1, tables[1]), table_of(name, 2, tables[2])
                live:take(first, "hold", 0, { [first.peers[1].id] = { half_open = true } })
                live:watch_half_open(first.peers, live.unhealthy)
                for i = 1, PEERS do
                    live.context.stats:raise(i) -- all are full, if there are limits
                end
                local fields = fields_of(live)
                local breathe, breaths = counted_breaths(function()
                    assert.same(fields, fields_of(live))
                    local peer = live:first("a key")
                    assert.equal(tables[1] == AFTER, peer ~= nil)
                    assert.is_true(not peer or string.sub(peer.id, 1, 3) == "new")
                    assert.is_string((live:why_none({ n = 0 }, 1)))
                    live:another({ n = 1, first.peers[9] }, 1, "a key")
                    live:tries_after(first.peers[1])
                end)
                assert.is_true(live:take(second, "fresh", 0, {}, breathe))
                assert.is_true(breaths() > 3)
                for _, field in ipairs({ "table", "rung", "eligible", "unhealthy", "limited", "sticky.by_value" }) do
                    assert.not_equal(fields[field], fields_of(live)[field], field)
                end
            end)
        end

        it("changes nothing if the picker raises, and takes the table at the next call", function()
            local live = new({ retries = 2, sticky = SESSIONS })
            live:take(table_of(name, 1, BEFORE), "hold", 0)
            local fields, second = fields_of(live), table_of("vnswrr2", 1, AFTER)
            assert.has_error(function()
                live:take(second, "fresh", 0, {}, function() error("stopped") end)
            end)
            assert.same(fields, fields_of(live))
            live:take(second, "fresh", 0, {})
            assert.equal(second, live.table)
            assert.equal("vnswrr2", live.picker_name)
        end)
    end)
end
