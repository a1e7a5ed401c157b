--- Bring this worker up to date with the shared state of an upstream: its table, the health of its peers, its rung on
-- the ladder.
--
-- The work for a large table is done in slices, with requests in between. The previous ring serves until the new one is
-- ready.

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

-- At most 0.2 ms of unrolling (1000 equal peers).
local GROW_SLOTS = 200

-- Peers between two calls of breathe(): to look up a cell takes about 1 us, to give one out 2 us.
local PEERS_PER_BREATH = 20

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


--- Whether all ids of a set are in another set.
local function are_in(ids, others)
    for id in pairs(ids) do
        if others[id] == nil then
            return false
        end
    end
    return true
end


--- Give each peer its cell of the shared memory, and log once if there are too few cells.
local function assign_cells(worker, live, peers, breathe)
    local before, addresses, without, now = live.addresses or {}, {}, 0, clock.monotonic()
    for i = 1, #peers do
        local address = peers[i].address
        local cell = before[address] or peer_cells.NONE
        -- A leaving worker gets no cells: after a reload they are in another memory.
        if cell == peer_cells.NONE and not worker.leaving then
            cell = shared_stats.cell_of(worker.memory, address, now)
            if cell == peer_cells.NONE then
                without = without + 1
            end
        end
        peers[i].cell, addresses[address] = cell, cell
        breathe(i, PEERS_PER_BREATH)
    end
    live.addresses, live.without_cell, live.with_cells = addresses, without, peers
    if worker.store:outcome_changed("!cells/" .. live.name, without > 0 and "full" or "ok") and without > 0 then
        ngx.log(ngx.ERR, "steelyard: upstream ", live.name, ": all ", worker.cells.cells, " cells of the shared ",
                "memory are in use, and ", without, " servers have none: they get requests by their weights, but ",
                "their requests are neither counted nor reported")
    end
end


--- Claim the cells that this worker uses: those of all its servers, and those with counts that are not flushed. Try
-- again to get cells for servers without one.
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
            breathe(kept, 10 * PEERS_PER_BREATH)
        end
    end
end


local function sync_table(worker, live, breathe)
    -- The version of a table is written last. At 0 there may be a text without a source and a time, and it would count
    -- as old as the machine.
    local version = worker.store:version(live.name)
    if version ~= (live.version or 0) then
        local arrived_at, from_disk = worker.store:arrived_at(live.name) or 0, worker.store:from_disk(live.name)
        local known = worker.store:table(live.name, breathe)
        live.version = version
        if known then
            -- The age of the table that this worker serves, and not of one that it could not take over.
            live.known, live.arrived_at, live.from_disk = known, arrived_at, from_disk
        end
    end
end


--- The servers that are out, and a look at their health if it is a new one. A set of the same servers is the same
-- table, so that no ring begins again. The look is used once everything else is in force: see use_look.
local function sync_health(worker, live, served, breathe)
    local version, last = worker.health:version(live.name), live.health_look
    local check = live:check_with(served)
    local about = check and check.about
    if last and served.peers == last.peers and version == last.version and about == last.about
       and not (last.until_s and clock.monotonic() >= last.until_s) then
        return live.unhealthy, nil
    end
    local look = { peers = served.peers, version = version, about = about }
    look.unhealthy, look.until_s = worker.health:unhealthy(live.name, served.peers, check, breathe)
    if are_in(look.unhealthy, live.unhealthy) and are_in(live.unhealthy, look.unhealthy) then
        return live.unhealthy, look
    end
    return look.unhealthy, look
end


--- Note a look at health as used: before, it would be lost if a picker's update raised.
local function use_look(live, look)
    for id, why in pairs(look.unhealthy) do
        live.unhealthy[id] = why -- the same servers may be out for another reason or time
    end
    live.health_look = look
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


--- Why all servers of an upstream are used although some are out, in words.
local function why_all(live)
    local healthy, eligible = 0, live.eligible
    for i = 1, #eligible do
        healthy = healthy + (live.unhealthy[eligible[i].id] and 0 or 1)
    end
    if healthy == 0 then
        return "no server is healthy, so all of them are used"
    end
    return string.format("%d of %d servers are healthy, less than panic_threshold = %g, so all of them are used",
                         healthy, #eligible, live.settings.panic_threshold)
end


--- Bring one upstream up to date; return its picker if that has a ring to unroll.
local function sync_one(worker, live, breathe)
    sync_table(worker, live, breathe)
    local age_s = live.known and clock.monotonic() - live.arrived_at
    local rung, drift = ladder.rung(age_s, #live.bootstrap.peers > 0, worker.options.limits, live.from_disk)
    if rung ~= live.rung and worker.store:outcome_changed("!rung/" .. live.name, rung) then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": from rung ", live.rung, " to ", rung)
    end
    if rung == "none" then
        return
    end
    local served = live.known or live.bootstrap
    local unhealthy, look = sync_health(worker, live, served, breathe)
    local is_anew = look ~= nil
    served = live.subset and live.subset:table_of(served, unhealthy, breathe) or served
    if served.peers ~= live.with_cells then
        assign_cells(worker, live, served.peers, breathe)
        is_anew = true
    end
    local was_open, last_error, last_check = live.fail_open, live.picker_error, live.check
    local has_new_ring = live:take(served, rung, drift, unhealthy, breathe)
    if look then
        use_look(live, look)
    end
    if is_anew then
        live:watch_half_open(served.peers, unhealthy)
    end
    log_check(worker, live, last_check)
    if not has_new_ring then
        return
    end
    if live.fail_open ~= was_open then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name,
                ": ", live.fail_open and why_all(live) or "enough servers are healthy, so only these are used")
    end
    if live.picker_error and live.picker_error ~= last_error and not live.picker.in_force then -- else it is logged
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


local function sync_all(worker, breathe)
    guarded("", keep_cells, worker, breathe)
    guarded("list of upstreams: ", listed_upstreams.follow, worker, _M.begin, breathe)
    local names, pickers = worker.options.names, {}
    for i = 1, #names do
        local live = worker.upstreams[names[i]]
        local done, picker = guarded("upstream " .. names[i] .. ": ", sync_one, worker, live, breathe)
        if done and picker then
            pickers[#pickers + 1] = picker
        end
        breathe()
    end
    if #pickers > 0 then
        timers.at(worker.dict, 0, grow, pickers) -- without this timer, picks unroll the rings themselves
    end
end


--- Bring all upstreams up to date. It yields if `sliced`; a tick that comes before it has finished does nothing.
function _M.all(worker, sliced)
    if worker.syncing then
        return
    end
    worker.syncing = true
    guarded("", sync_all, worker, sliced and clock.breather() or no_pause)
    worker.syncing = false
end


return _M
