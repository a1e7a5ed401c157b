--- Take up in this worker what has changed for an upstream: its table, the
-- health of its peers, its rung on the ladder.
--
-- The work for a large table is done in slices, with requests between them; the
-- ring of before serves until the new one is ready.

local cells = require "steelyard.io.cells"
local clock = require "steelyard.io.clock"
local ladder = require "steelyard.core.ladder"
local peers_of = require "steelyard.core.peers"
local weight_table = require "steelyard.core.weight_table"

-- 0.9 ms of unrolling at most (1000 equal peers), 0.3 ms at 10,000 peers.
local GROW_SLOTS = 1000

-- Peers between two breaths: a cell costs about 1 us.
local BREATH = 100

local _M = {}


local function grow(premature, picker)
    local breathe = clock.breather()
    while not premature and picker:grow(GROW_SLOTS) > 0 do
        breathe()
    end
end


--- Give each peer its cell on the board; return address -> cell.
local function seat(worker, peers, breathe)
    local addresses = {}
    for i = 1, #peers do
        local address = peers[i].address
        local cell = cells.of(worker.dict, address)
        peers[i].cell, addresses[address] = cell, cell
        if i % BREATH == 0 then
            breathe()
        end
    end
    return addresses
end


local function follow_table(worker, live, breathe)
    local version = worker.store:version(live.name)
    if version == live.version then
        return false
    end
    local known = worker.store:table(live.name, breathe)
    live.version = version
    if not known then
        return false
    end
    local moved = not live.known or known.peers ~= live.known.peers
    if moved then
        live.addresses = seat(worker, known.peers, breathe)
    end
    live.known = known
    return moved
end


local function follow_health(worker, live, moved, breathe)
    local version, served = worker.health:version(live.name), live.known or live.bootstrap
    local check = live:check_with(served)
    local about = check and check.about
    if not moved and version == live.health_version and about == live.health_about
       and not (live.health_until and clock.monotonic() >= live.health_until) then
        return live.unhealthy
    end
    live.health_version, live.health_about = version, about
    local unhealthy
    unhealthy, live.health_until = worker.health:unhealthy(live.name, served.peers, check, breathe)
    if not peers_of.same_ids(unhealthy, live.unhealthy) then
        return unhealthy
    end
    for id, why in pairs(unhealthy) do
        live.unhealthy[id] = why -- the same peers are out, but why and until when may be new
    end
    return live.unhealthy
end


--- Say what became of the check, once for all workers.
local function tell_check(worker, live, before)
    local check = live.check
    if (check and check.id) ~= (before and before.id)
       and worker.store:outcome_changed("!check/" .. live.name, check and check.id or "") then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": ",
                check and "servers are checked by GET " .. check.path .. ", every " .. check.interval_s .. " s"
                or "servers are no longer checked")
    end
end


local function follow_one(worker, live, breathe)
    local moved = follow_table(worker, live, breathe)
    local seen = live.known and (worker.store:seen(live.name) or 0)
    local rung, drift = ladder.rung(seen and clock.monotonic() - seen, #live.bootstrap.peers > 0, worker.options.limits,
                                    worker.store:from_disk(live.name))
    if rung ~= live.rung and worker.store:outcome_changed("!rung/" .. live.name, rung) then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": from rung ", live.rung, " to ", rung)
    end
    if rung == "none" then
        return
    end
    local unhealthy = follow_health(worker, live, moved, breathe)
    local open, failed, check = live.fail_open, live.picker_error, live.check
    local moves = live:take(live.known or live.bootstrap, rung, drift, unhealthy, breathe)
    tell_check(worker, live, check)
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
    ngx.timer.at(0, grow, live.picker)
end


local function no_pause() end


--- Prepare an upstream's bootstrap list; once, in init_worker.
function _M.begin(worker, live, peers)
    live.bootstrap = weight_table.bootstrap(live.name, peers)
    live.addresses = seat(worker, peers, no_pause)
end


--- Follow all upstreams. Yields when `sliced`, so it may not yet be done when
-- the next tick comes: that one then leaves it alone.
function _M.all(worker, sliced)
    if worker.following then
        return
    end
    worker.following = true
    local breathe = sliced and clock.breather() or no_pause
    local names = worker.options.names
    for i = 1, #names do
        local ok, err = pcall(follow_one, worker, worker.upstreams[names[i]], breathe)
        if not ok then
            ngx.log(ngx.ERR, "steelyard: upstream ", names[i], ": ", err)
        end
    end
    worker.following = false
end


return _M
