--- The state of one worker process, and what it does by the clock.
--
-- One tick each TICK_S: follow the shared tables (a version to compare per
-- upstream), flush the counters, and take a turn at fetching or reporting when
-- one is due. Ticks only touch memory; a turn does its I/O in a timer of its own.

local fetch = require "steelyard.io.fetch"
local ladder = require "steelyard.core.ladder"
local ledger = require "steelyard.core.ledger"
local report = require "steelyard.io.report"
local store = require "steelyard.io.store"
local totals = require "steelyard.io.totals"
local turn = require "steelyard.io.turn"
local upstream = require "steelyard.core.upstream"
local weight_table = require "steelyard.core.weight_table"

-- A new table is served by every worker this long after it was fetched.
local TICK_S = 0.1

-- Two or three ticks; reports are once a second.
local FLUSH_S = 0.2

-- Of the interval.
local JITTER = 0.1

-- At most about 1 ms of unrolling at a time, and then requests again.
local GROW_SLOTS, GROW_PAUSE_S = 1000, 0.001

local _M = {
    broken = "init_worker was not called",
    upstreams = {},
    ledger = ledger.new(),
}


local function grow(premature, picker)
    while not premature and picker:grow(GROW_SLOTS) > 0 do
        ngx.sleep(GROW_PAUSE_S)
    end
end


--- Take up what changed of one upstream: its table, or its rung on the ladder.
local function follow(live, now)
    local version = _M.store:version(live.name)
    if version ~= live.version then
        local text = _M.store:table_text(live.name)
        live.known = text and weight_table.decode(text) or live.known
        live.version = version
    end
    local seen = live.known and (_M.store:seen(live.name) or 0)
    local rung, drift = ladder.rung(seen and now - seen, #live.bootstrap.peers > 0, _M.options.limits)
    if rung ~= live.rung and _M.store:outcome_changed("!rung/" .. live.name, rung) then
        ngx.log(ngx.NOTICE, "steelyard: upstream ", live.name, ": from rung ", live.rung, " to ", rung)
    end
    if rung == "none" then
        return
    end
    if live:take(live.known or live.bootstrap, rung, drift) then
        ngx.timer.at(0, grow, live.picker)
    end
end


--- Add this worker's counters to those of all.
function _M.flush()
    local serving = {}
    for name, live in pairs(_M.upstreams) do
        serving[name] = live.table and { term = live.table.term, generation = live.table.generation } or nil
    end
    _M.totals:flush(_M.ledger, { pid = ngx.worker.pid(), slot = _M.totals.slot, serving = serving })
end


--- Do a job in this worker if it is due and no other worker has it.
local function attempt(job, interval_s, work)
    if not turn.take(_M.dict, job, interval_s, ngx.now()) then
        return
    end
    ngx.timer.at(0, function(premature)
        if not premature then
            local ok, err = pcall(work)
            if not ok then
                ngx.log(ngx.ERR, "steelyard: ", job, " failed: ", err)
            end
        end
        turn.done(_M.dict, job, interval_s, ngx.now())
    end)
end


local function jobs()
    local options = _M.options
    attempt("fetch", options.fetch_interval_s, function()
        -- So that load balancers that were started together do not ask together.
        ngx.sleep(0.001 + options.fetch_interval_s * JITTER * math.random()) -- 0 would be a busy turn
        fetch.run(options, _M.store)
    end)
    attempt("report", options.report_interval_s, function()
        report.run(_M, ngx.now())
    end)
end


local last_flush = 0

local function tick()
    local now = ngx.now()
    for _, name in ipairs(_M.options.names) do
        follow(_M.upstreams[name], now)
    end
    if math.abs(now - last_flush) >= FLUSH_S then -- abs: the clock may be set back
        last_flush = now
        _M.flush()
    end
end


local function guarded(work)
    local ok, err = pcall(work)
    if not ok then
        ngx.log(ngx.ERR, "steelyard: ", err)
    end
end


local function on_timer(premature)
    if premature then
        return guarded(_M.flush) -- the worker is about to go: leave its counts
    end
    guarded(tick)
    guarded(jobs)
end


--- Begin: checked options in, timers on.
function _M.start(options)
    local dict = ngx.shared[options.dict]
    if not dict then
        error("steelyard.init_worker: there is no shared dict `" .. options.dict
              .. "`; add `lua_shared_dict " .. options.dict .. " 10m;` to http {}", 0)
    end
    _M.options, _M.dict = options, dict
    _M.store, _M.totals = store.new(dict), totals.new(dict)
    _M.totals:enter()
    for _, name in ipairs(options.names) do
        local live = upstream.new(name, math.random)
        live.bootstrap = weight_table.bootstrap(name, options.upstreams[name].bootstrap)
        _M.upstreams[name] = live
    end
    -- Once here, so that a worker that is born late (a reload, a crash) never
    -- serves without the table that the others have.
    tick()
    assert(ngx.timer.at(0, on_timer))
    assert(ngx.timer.every(TICK_S, on_timer))
    _M.broken = nil
end


return _M
