--- The memory that a table of servers takes of a worker's heap: LuaJIT's own count, after a full collection.

local open_options = require "steelyard.core.options"
local peer_stats = require "steelyard.core.peer_stats"
local upstream = require "steelyard.core.upstream"
local weight_table = require "steelyard.core.weight_table"

local SERVERS = 2000

-- 586 bytes: 120 of them are the text, 256 the fields of the peer, and some 100 its strings.
local MOST_BYTES = 640

local HEAD = '{"v":1,"upstream":"web","term":1,"generation":%d,"issued_at_ms":1,"law":"static","picker":"%s",'
             .. '"reporters":["edge-1"],"peers":['
local ROW = '{"id":"server-%05d","address":"127.1.%d.%d:20001","weight":%d,"baseline":%d,"state":"up"}'

local function heap_bytes()
    jit.flush() -- compiled code is in the heap, too
    collectgarbage()
    collectgarbage()
    return 1024 * collectgarbage("count")
end


local function text_of(picker, generation, more)
    local rows = {}
    for i = 1, SERVERS do
        local weight = 1 + 7 * i % 10 + more
        rows[i] = ROW:format(i, math.floor(i / 250), 1 + i % 250, weight, weight)
    end
    return HEAD:format(generation, picker) .. table.concat(rows, ",") .. "]}"
end


describe("a worker's heap", function()
    local settings = open_options.check({ memcached = { "h:1" }, lb = "a", upstreams = { web = { bootstrap = {} } } })
                     .upstreams.web

    local function upstream_of(stats)
        return upstream.new("web", settings, {
            random = math.random, stats = stats, now = function() return 1 end, workers = 1, lb = "a",
        })
    end

    --- Take a table as a worker does; return what it keeps of it.
    local function take(live, text, previous)
        local decoded = assert(weight_table.decode(text, { previous = previous }))
        local addresses = {}
        for i, peer in ipairs(decoded.peers) do
            peer.cell, addresses[peer.address] = i, i
        end
        live:take(decoded, "fresh", 0, {})
        while live.picker:grow(1000) > 0 do end
        return { table = decoded, text = text, addresses = addresses }
    end

    for _, picker in ipairs({ "vnswrr", "vnswrr2" }) do
        it("has at most " .. MOST_BYTES .. " bytes of a server, with " .. picker, function()
            local live = upstream_of(peer_stats.new(peer_stats.local_memory(SERVERS + 1), 1, SERVERS + 1, 0, 0))
            take(live, text_of(picker, 1, 0)) -- all modules have made what they keep
            live = upstream_of(live.context.stats)
            local before = heap_bytes()
            local kept = take(live, text_of(picker, 2, 0))
            local first = (heap_bytes() - before) / SERVERS
            kept = take(live, text_of(picker, 3, 1), kept.table)
            kept = take(live, text_of(picker, 4, 1), kept.table) -- and once more, with the same rows
            local later = (heap_bytes() - before) / SERVERS
            assert.is_true(first < MOST_BYTES, first)
            assert.is_true(later < MOST_BYTES, later)
            assert.equal(SERVERS, #kept.table.peers)
        end)
    end
end)
