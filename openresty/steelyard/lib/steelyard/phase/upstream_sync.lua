--- Bring this worker up to date with what all workers share of an upstream: its table,
-- the health of its peers, its rung on the ladder.
--
-- The work for a large table is done in slices, with requests between them; the
-- ring of before serves until the new one is ready.

local clock = require "steelyard.io.clock"
local ladder = require "steelyard.core.ladder"
local listed_upstreams = require "steelyard.phase.listed_upstreams"
local no_pause = require("resty.vnswrr").no_pause
local peer_cells = require "steelyard.core.peer_cells"
local shared_stats = require "steelyard.io.shared_stats"
local timers = require "steelyard.io.timers"
local upstream = require "steelyard.core.upstream"
local weight_table = require "steelyard.core.weight_table"

local guarded = timers.guarded

-- 0.2 ms of unrolling at most (1000 equal peers).
local GROW_SLOTS = 200

-- Peers between two breaths: a cell costs about 1 us, and one that is given out 2 us.
local BREATH = 20

local _M = {}


--- Unroll the rings of pickers that got new peers.
local function grow(premature, pickers)
    if premature then
        return
    end
    local breathe = clock.breather()
    for i = 1, #pickers do
        while pickers[i]:grow(GROW_SLOTS) > 0 do
            breathe()
        end
        breathe()
    end
end


--- Whether all ids of a set are in another.
local function are_in(ids, others)
    for id in pairs(ids) do
        if others[id] == nil then
            return false
        end
    end
    return true
end


--- Give each peer its cell of the shared memory, and log once when there are not enough of them.
local function assign_cells(worker, live, peers, breathe)
    local before, addresses, without, now = live.addresses or {}, {}, 0, clock.monotonic()
    for i = 1, #peers do
        local address = peers[i].address
        local cell = before[address] or peer_cells.NONE
        if cell == peer_cells.NONE and not worker.leaving then -- after a reload cells are in another memory
            cell = shared_stats.cell_of(worker.memory, address, now)
        end
        peers[i].cell, addresses[address] = cell, cell
        without = without + (cell == peer_cells.NONE and not worker.leaving and 1 or 0)
        breathe(i, BREATH)
    end
    live.addresses, live.without_cell, live.with_cells = addresses, without, peers
    if worker.store:outcome_changed("!cells/" .. live.name, without > 0 and "full" or "ok") and without > 0 then
        ngx.log(ngx.ERR, "steelyard: upstream ", live.name, ": all ", worker.cells.cells, " cells of the shared ",
                "memory are in use, and ", without, " servers have none: they get requests by their weights, and ",
                "what they do is not counted, reported or learnt from")
    end
end


--- Say which cells of the shared memory this worker uses: those of all servers that it serves, and
-- those whose counts it has not handed out. Servers that found none try again.
local function keep_cells(worker, breathe)
    local cells, now, kept = worker.cells, clock.monotonic(), 0
    if not cells:due(now) then
        return
    end
    local listed = worker.requests.cells
    for i = 1, #listed do
        cells:keep(listed[i], now)
    end
    for _, live in pairs(worker.upstreams) do
        if live.without_cell > 0 then
            assign_cells(worker, live, live.with_cells, breathe)
        end
        for _, cell in pairs(live.addresses) do
            cells:keep(cell, now)
            kept = kept + 1
            breathe(kept, 10 * BREATH)
        end
    end
end


local function sync_table(worker, live, breathe)
    -- The version is the last that is written of a table: at 0 there may be its text, and not yet where it is
    -- from and since when, and it would be taken for one that is as old as the machine.
    local version = worker.store:version(live.name)
    if version ~= (live.version or 0) then
        live.known = worker.store:table(live.name, breathe) or live.known
        live.version = version
    end
end


--- Which servers are out, and whether that was looked at anew.
local function sync_health(worker, live, served, breathe)
    local version = worker.health:version(live.name)
    local check = live:check_with(served)
    local about = check and check.about
    if served.peers == live.health_of and version == live.health_version and about == live.health_about
       and not (live.health_until and clock.monotonic() >= live.health_until) then
        return live.unhealthy, false
    end
    live.health_of, live.health_version, live.health_about = served.peers, version, about
    local unhealthy
    unhealthy, live.health_until = worker.health:unhealthy(live.name, served.peers, check, breathe)
    if not (are_in(unhealthy, live.unhealthy) and are_in(live.unhealthy, unhealthy)) then
        return unhealthy, true
    end
    for id, why in pairs(unhealthy) do
        live.unhealthy[id] = why -- the same peers are out, but why and until when may be new
    end
    return live.unhealthy, true
end


--- Log a change of the active check, once for all workers.
local function log_check(worker, live, before)
    local check = live.check
    if (check and check.id) ~= (before and before.id)
       and worker.store:outcome_changed("!check/" .. live.name, check and check.id or "") then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": ",
                check and "servers are checked by " .. check.words .. ", every " .. check.interval_s .. " s"
                or "servers are no longer checked")
    end
end


--- Bring one upstream up to date; return its picker if that has a ring to unroll.
local function sync_one(worker, live, breathe)
    sync_table(worker, live, breathe)
    local arrived_at = live.known and (worker.store:arrived_at(live.name) or 0)
    local age_s = arrived_at and clock.monotonic() - arrived_at
    local rung, drift = ladder.rung(age_s, #live.bootstrap.peers > 0, worker.options.limits,
                                    worker.store:from_disk(live.name))
    if rung ~= live.rung and worker.store:outcome_changed("!rung/" .. live.name, rung) then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": from rung ", live.rung, " to ", rung)
    end
    if rung == "none" then
        return
    end
    local served = live.known or live.bootstrap
    local unhealthy, looked = sync_health(worker, live, served, breathe)
    served = live.subset and live.subset:table_of(served, unhealthy, breathe) or served
    if served.peers ~= live.with_cells then
        assign_cells(worker, live, served.peers, breathe)
        looked = true
    end
    if looked then
        live:watch_half_open(served.peers, unhealthy)
    end
    local open, failed, check = live.fail_open, live.picker_error, live.check
    local moves = live:take(served, rung, drift, unhealthy, breathe)
    log_check(worker, live, check)
    if not moves then
        return
    end
    if live.fail_open ~= open then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name,
                live.fail_open and ": no server is healthy, so all of them are used" or ": healthy servers again")
    end
    if live.picker_error and live.picker_error ~= failed then
        ngx.log(ngx.ERR, "steelyard: upstream ", live.name, ": ", live.picker_error, "; ", live.picker_name, " is used")
    end
    return live.picker
end


--- Make an upstream that begins with its bootstrap list.
function _M.begin(worker, name, settings)
    local live = upstream.new(name, settings, worker.context)
    live.bootstrap = weight_table.bootstrap(name, settings.bootstrap)
    assign_cells(worker, live, settings.bootstrap, no_pause)
    return live
end


--- Bring all upstreams up to date. Yields when `sliced`, so it may not be done when the
-- next tick comes, which then does nothing.
function _M.all(worker, sliced)
    if worker.syncing then
        return
    end
    worker.syncing = true
    local breathe = sliced and clock.breather() or no_pause
    guarded("", keep_cells, worker, breathe)
    guarded("list of upstreams: ", listed_upstreams.follow, worker, _M.begin, breathe)
    local names, pickers = worker.options.names, {}
    for i = 1, #names do
        local live = worker.upstreams[names[i]]
        local done, picker = guarded("upstream " .. names[i] .. ": ", sync_one, worker, live, breathe)
        pickers[#pickers + 1] = done and picker or nil
        breathe()
    end
    if #pickers > 0 then
        timers.at(worker.dict, 0, grow, pickers) -- without it, picks unroll the rings as they go
    end
    worker.syncing = false
end


return _M
