--- The cost of a pick, and of a change of every weight.
--
--   luajit openresty/benchmarks/pick.lua
--
-- Prints nanoseconds a pick (the median of five runs). For 10,000 peers it also
-- prints a worker's busy time, in all and the longest piece. A worker lets
-- requests run once 1 ms has passed. It looks at the clock in `breathe`, or
-- once in a number of rows, and this program does the same. Its clock is the
-- process's CPU time, so other processes on the same core do not count.

local root = arg[0]:match("^(.*)benchmarks/[^/]*$")
package.path = root .. "lua-resty-vnswrr/lib/?.lua;" .. root .. "steelyard/lib/?.lua;" .. package.path

local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"
local vnswrr = require "resty.vnswrr"

local YIELD_MS = 1
local GROW_SLOTS = 1000

--- Milliseconds of CPU time.
local function now_ms()
    return os.clock() * 1e3
end


local function say(format, ...)
    io.write(format:format(...), "\n")
end


local function median(values)
    table.sort(values)
    return values[math.floor(#values / 2) + 1]
end


--- n peers with weights like published ones: around 20, nearly all different.
local function peers_of(n)
    local peers = {}
    for i = 1, n do
        local id = ("server-%05d"):format(i)
        peers[i] = { id = id, address = id, weight = math.random(5, 35), baseline = 20, state = "up", cell = i - 1 }
    end
    return peers
end


--- The peers in the forms that rings take: two lists, and a map.
local function rows_of(n)
    local rows = { ids = {}, weights = {}, nodes = {} }
    for i, peer in ipairs(peers_of(n)) do
        rows.ids[i], rows.weights[i], rows.nodes[peer.id] = peer.id, peer.weight, peer.weight
    end
    return rows
end


--- Nanoseconds of a pick().
local function ns_a_pick(pick, runs)
    runs = runs or 2000000
    local figures = {}
    for round = 1, 5 do
        local begin = now_ms()
        for _ = 1, runs do
            pick()
        end
        figures[round] = (now_ms() - begin) / runs * 1e6
    end
    return median(figures)
end


--- A stopwatch: `breathe` for the work, and its findings.
local function stopwatch()
    local watch = { busy = 0, longest = 0, longest_breath = 0 }
    local slice_began, last = now_ms(), now_ms()
    function watch.yield()
        local now = now_ms()
        watch.busy = watch.busy + now - slice_began
        watch.longest = math.max(watch.longest, now - slice_began)
        slice_began, last = now_ms(), now_ms()
    end
    function watch.breathe(row, rows)
        if row and row % rows > 0 then
            return
        end
        local now = now_ms()
        watch.longest_breath = math.max(watch.longest_breath, now - last)
        if now - slice_began >= YIELD_MS then
            return watch.yield()
        end
        last = now
    end
    return watch
end


local function bench_find()
    say("resty.vnswrr, ns a find():")
    for _, n in ipairs({ 3, 100, 2000, 10000 }) do
        local ring = vnswrr:new(rows_of(n).nodes, { random = math.random })
        repeat until ring:grow(GROW_SLOTS) == 0
        say("  %6d peers %7.1f", n, ns_a_pick(function() return ring:find() end))
    end
end


--- Change every weight eleven times by `update(ring, rows, breathe)` and grow the rings whole.
local function bench_change(n, name, update)
    local ring = vnswrr:new({}, { random = math.random })
    local build, grown, longest, breath, slots = {}, {}, {}, 0, 0
    for round = 1, 11 do
        local rows = rows_of(n)
        collectgarbage()
        local watch = stopwatch()
        update(ring, rows, watch.breathe)
        watch.yield()
        build[round] = watch.busy
        breath = math.max(breath, watch.longest_breath)
        repeat
            local left = ring:grow(GROW_SLOTS)
            watch.yield()
        until left == 0
        grown[round], longest[round] = watch.busy - build[round], watch.longest
        slots = ring.capacity
    end
    say("  %6d peers, %-13s: build %6.2f ms + %5d slots %6.2f ms = %6.2f ms; "
        .. "longest slice %4.2f ms, at worst %4.2f, %4.2f without a breath",
        n, name, median(build), slots, median(grown), median(build) + median(grown),
        median(longest), math.max(unpack(longest)), breath)
end


local function bench_changes()
    say("a change of every weight, slices of %d ms, growth by %d slots:", YIELD_MS, GROW_SLOTS)
    for _, n in ipairs({ 100, 2000, 10000 }) do
        bench_change(n, "reinit_sorted", function(ring, rows, breathe)
            ring:reinit_sorted(rows.ids, rows.weights, breathe)
        end)
        bench_change(n, "reinit", function(ring, rows, breathe)
            ring:reinit(rows.nodes, breathe)
        end)
    end
end


local function bench_pickers(n)
    say("pickers at %d peers with 0 to 3 requests in flight, ns a pick():", n)
    local peers, clock = peers_of(n), 0
    local stats = peer_stats.new(peer_stats.local_memory(n), 1, n, 0)
    stats:keep_levels()
    for _, peer in ipairs(peers) do
        local latency_ms = math.random(1, 20)
        for sample = 0, 7 do -- believed from the second on, at each level
            stats:observe(peer.cell, latency_ms, true, clock, math.floor(sample / 2))
        end
        for _ = 1, math.random(0, 3) do
            stats:raise(peer.cell)
        end
    end
    local context = { random = math.random, stats = stats, now = function() return clock end }
    for _, each in ipairs(pickers.all()) do
        if not each.library then
            local picker = each.new(context)
            picker:update(peers, function() end)
            repeat until picker:grow(GROW_SLOTS) == 0
            say("  %-12s %9.1f", each.name, ns_a_pick(function() return picker:pick() end,
                                                      each.name == "least_conn" and 20000 or nil))
        end
    end
end


math.randomseed(20261121)
bench_find()
bench_changes()
bench_pickers(3)
bench_pickers(2000)
