--- The state of one worker process: its start (init_worker_by_lua), and its work by the clock.
--
-- One tick each TICK_S: flush the counters, take up changed tables, and take a job that is due and free. Fetch and
-- report are one job each for all upstreams, each in a timer of its own. Health is a job for each upstream; the jobs
-- that fall due together share a timer. Flush, report and fetch aim at the common phase of the clock, so that each
-- finds fresh input.

local clock = require "steelyard.io.clock"
local clock_phase = require "steelyard.core.clock_phase"
local ended_requests = require "steelyard.phase.ended_requests"
local flush_interval = require "steelyard.core.flush_interval"
local in_flight_loop = require "steelyard.io.in_flight_loop"
local failure_exchange = require "steelyard.io.failure_exchange"
local health_checker = require "steelyard.io.health_checker"
local jobs = require "steelyard.phase.jobs"
local list_fetch = require "steelyard.io.list_fetch"
local leaving_workers = require "steelyard.phase.leaving_workers"
local listed_upstreams = require "steelyard.phase.listed_upstreams"
local no_pause = require("resty.vnswrr").no_pause
local open_requests = require "steelyard.core.open_requests"
local options_of = require "steelyard.core.options"
local orca_load_reports = require "steelyard.io.orca_load_reports"
local peer_health = require "steelyard.io.peer_health"
local peer_stats = require "steelyard.core.peer_stats"
local platform = require "steelyard.io.platform"
local request_end = require "steelyard.io.request_end"
local saved_tables = require "steelyard.io.saved_tables"
local session_closer = require "steelyard.phase.session_closer"
local shared_counters = require "steelyard.io.shared_counters"
local shared_dict = require "steelyard.io.shared_dict"
local shared_stats = require "steelyard.io.shared_stats"
local signature = require "steelyard.io.signature"
local table_store = require "steelyard.io.table_store"
local timers = require "steelyard.io.timers"
local traffic_reporter = require "steelyard.io.traffic_reporter"
local upstream_sync = require "steelyard.phase.upstream_sync"

local guarded = timers.guarded

-- Every worker serves a new table at most this long after the fetch.
local TICK_S = 0.1

local LOG_EVERY_S, PICKER_ERROR_S = 10, 60

-- If a tick is this late, nginx has dropped earlier ones, or the worker was busy.
local TICK_LATE_S = 1

local _M = {
    VERSION = "0.1.0",
    broken = "init_worker was not called",
    closes_sessions = false, -- whether an upstream's sessions are ever closed
    has_hosts = false, -- whether an upstream has a `host`
    leaving = false, -- whether nginx waits for the last requests of this worker
    upstreams = {}, -- replaced and not edited when the controller's list changes (phase/listed_upstreams)
    -- For requests after a failed init_worker: they get no server.
    requests = open_requests.new(peer_stats.new(peer_stats.local_memory(1), 1, 1, 0)),
}


--- For an upstream: the order of the table in use, and the number of servers that are out.
local function serving_of(live)
    local unhealthy = 0
    for _ in pairs(live.unhealthy) do
        unhealthy = unhealthy + 1
    end
    return { term = live.table.term, generation = live.table.generation, unhealthy = unhealthy }
end


--- This worker as its flush describes it to the others.
local function about_worker()
    local serving = {}
    for name, live in pairs(_M.upstreams) do
        serving[name] = live.table and serving_of(live) or nil
    end
    return {
        pid = ngx.worker.pid(), slot = _M.counters.slot, serving = serving,
        lua_bytes = collectgarbage("count") * 1024, -- with uncollected garbage
    }
end


--- Add this worker's counters to the shared ones. It yields in long work if it is given a breather; a call in the
-- meantime does nothing.
function _M.flush(breathe)
    if _M.flushing then
        return
    end
    _M.flushing = true
    breathe = breathe or no_pause
    guarded("counters not flushed: ", function()
        _M.counters:flush(_M.requests, about_worker(), breathe)
        for name, live in pairs(_M.upstreams) do
            if live.own_failures then
                _M.counters:flush_own(name, live.own_failures:take())
            end
        end
        _M.loads:flush(breathe)
    end)
    _M.flushing = false
end


--- Count a try that got no answer at all against its server (max_fails).
-- @param url that no server has answered, or nil (io/peer_health)
function _M.unanswered(name, peer, url)
    local live = _M.upstreams[name]
    if live and live.settings.max_fails > 0 then
        _M.health:failed(name, peer, live.settings, url)
    end
end


--- Note that a server has answered: if it is half-open, it is back.
function _M.answered(name, peer)
    local live = _M.upstreams[name]
    if live and #live.half_open > 0 and live:is_half_open(peer) then
        _M.health:answered(name, peer)
    end
end


--- Log a line about a fault that many requests of an upstream may meet: once in LOG_EVERY_S for all workers.
-- @param key the fault's key in the shared dict
function _M.log_seldom(key, level, name, ...)
    if _M.dict:once(key, LOG_EVERY_S) then
        ngx.log(level, "steelyard: upstream ", name, ": ", ...)
    end
end


--- Count a request that was not tried again because its upstream's retry budget was spent, and log it now and then.
function _M.retry_refused(name)
    _M.dict:incr("retries_refused/" .. name, 1, 0)
    _M.log_seldom("retries_refused_logged/" .. name, ngx.WARN, name, "the retry budget is spent, failed requests are ",
                  "not tried again: too many fail")
end


--- Count an error of a picker that is not Steelyard's own. It is on the status page for a minute, and logged once in
-- that time.
-- @param method the picker's method that raised it
local function picker_failed(name, method, problem)
    _M.dict:incr("picker_errors/" .. name, 1, 0)
    _M.dict:set("picker_error/" .. name, problem, PICKER_ERROR_S)
    if _M.dict:once("picker_error_logged/" .. name .. "/" .. method, PICKER_ERROR_S) then
        ngx.log(ngx.ERR, "steelyard: upstream ", name, ": ", problem, "; the default picker takes its place")
    end
end


local next_flush = 0
local flush_set_at -- when the timer of the last flush was set, by the monotonic clock; nil since it has run

local function flush_by_timer(premature)
    flush_set_at = nil
    if not premature then -- on_timer flushes when the worker leaves
        guarded("", _M.flush, clock.breather())
    end
end


--- Whether a try has failed since the last flush, at its server or by an upstream's own rules.
local function has_failures()
    if _M.requests.has_failures then
        return true
    end
    for _, live in pairs(_M.upstreams) do
        if live.own_failures and live.own_failures:has_failures() then
            return true
        end
    end
    return false
end


--- Flush at the next whole interval, if that is before the next tick. The clock may be set back.
local function flush_if_due(now)
    if flush_set_at and clock.now() - flush_set_at > TICK_LATE_S then
        flush_set_at = nil
        timers.dropped(_M.dict, "the timer for counts was not run")
        guarded("", _M.flush, clock.breather())
    end
    local servers, wait_s = #_M.requests.cells, next_flush - now
    local interval_s = flush_interval.seconds(servers, has_failures(), _M.options.report_interval_s)
    if wait_s > TICK_S and wait_s < 2 * interval_s then
        return
    end
    local from = math.max(now, math.min(next_flush, now + interval_s))
    next_flush = clock_phase.after(from, interval_s, -flush_interval.lead_s(servers))
    if timers.at(_M.dict, math.max(0, math.min(wait_s, TICK_S)), flush_by_timer) then
        flush_set_at = flush_set_at or clock.now()
    else
        guarded("", _M.flush, clock.breather()) -- now rather than never
    end
end


local ticked_at -- by the monotonic clock

--- Log a tick that is late.
local function note_tick()
    local now = clock.now()
    local late_s = ticked_at and now - ticked_at or 0
    ticked_at = now
    if late_s > TICK_LATE_S then
        timers.dropped(_M.dict, string.format("no timer of this worker was run for %.1f s", late_s))
    end
end


local function on_timer(premature)
    if premature then
        if not _M.leaving then
            leaving_workers.leave(_M, function()
                guarded("", ended_requests.close, _M)
                if _M.closes_sessions then
                    guarded("", upstream_sync.all, _M, false)
                end
                guarded("", session_closer.run, _M)
            end)
        end
        return
    end
    note_tick()
    if ngx.worker.id() == 0 then
        guarded("", leaving_workers.carry, _M)
    end
    guarded("", flush_if_due, ngx.now())
    guarded("", ended_requests.close, _M)
    guarded("", _M.jobs.run, _M.jobs)
    guarded("", _M.jobs.run_for_upstreams, _M.jobs)
    if _M.exchange then
        guarded("", _M.exchange.tick, _M.exchange)
    end
    guarded("", upstream_sync.all, _M, true)
    guarded("", session_closer.run, _M)
end


--- The names of an upstream's blocks in nginx.conf, if its connections are split.
local function shards_of(name, settings)
    if not (settings.shards and platform.sharded) then
        return nil
    end
    local shards = {}
    for i = 1, settings.shards do
        shards[i] = string.format("%s_%02d", name, i - 1)
    end
    return shards
end


--- Whether values are signed, or cookies hashed with a key.
local function needs_openssl(options)
    for _, settings in pairs(options.upstreams) do
        if settings.sticky then
            return true
        end
    end
    return options.key ~= nil or options.any_upstream ~= nil and options.any_upstream.sticky ~= nil
end


local function upstreams_now()
    return _M.upstreams
end


--- Make the parts that run by the clock. They ask for the upstreams each time: the table is replaced.
local function make_jobs(options)
    local dict, store = _M.dict, _M.store
    _M.jobs = jobs.new(_M)
    _M.reporter = traffic_reporter.new({
        dict = dict, options = options, store = store, counters = _M.counters, histograms = _M.histograms,
        upstreams = upstreams_now,
    })
    _M.checker = health_checker.new({
        dict = dict, store = store, health = _M.health, lb = options.lb, upstreams = upstreams_now,
    })
    if not _M.others then
        return
    end
    _M.exchange = in_flight_loop.new({
        dict = dict, store = store, stats = _M.stats, others = _M.others, random = math.random, lb = options.lb,
        memcached = options.memcached, cpu_share = options.share_in_flight.cpu_share, upstreams = upstreams_now,
    })
    _M.failures = failure_exchange.new({
        dict = dict, store = store, servers = _M.exchange.servers, lb = options.lb, key = options.keys.failures,
        upstreams = upstreams_now,
    })
end


--- Set up the worker's state from checked options, and start the timers.
local function start(options)
    local dict = shared_dict.open(options.dict)
    if not dict then
        error("steelyard.init_worker: there is no shared dict `" .. options.dict
              .. "`; add `lua_shared_dict " .. options.dict .. " 10m;` to " .. ngx.config.subsystem .. " {}", 0)
    end
    if needs_openssl(options) then
        local usable, missing = signature.available()
        if not usable then
            error("steelyard.init_worker: " .. missing, 0)
        end
    end
    options.keys = signature.keys(options.key)
    _M.options, _M.dict = options, dict
    _M.store, _M.health = table_store.new(dict), peer_health.new(dict)
    _M.cells, _M.stats, _M.histograms, _M.stats_problem = shared_stats.open(ngx.worker.id())
    _M.totals = shared_stats.open_totals(_M.cells)
    _M.counters = shared_counters.new(dict, _M.totals)
    _M.others = options.share_in_flight and shared_stats.open_others()
    _M.requests = open_requests.new(_M.stats, {
        memory = shared_stats.map(open_requests.bytes(_M.stats.cells)), histograms = _M.histograms, cells = _M.cells,
    })
    if ngx.config.subsystem == "http" then -- phase/stream_session watches the connections of stream {}
        local watched, why_not = request_end.available()
        if not watched then
            ngx.log(ngx.WARN, "steelyard: cannot watch for the end of requests: ", why_not, "; requests that end in a ",
                    "location with a log_by_lua of its own stay in flight until nginx uses their memory again")
        end
    end
    _M.loads = orca_load_reports.new(dict)
    _M.counters:enter()
    _M.context = {
        random = math.random, stats = _M.stats, now = clock.now, digest = signature.digest,
        workers = ngx.worker.count(), others = _M.others, shared = ngx.shared, lb = options.lb,
        zone = options.zone, picker_failed = picker_failed,
    }
    _M.memory = {
        dict = dict, cells = _M.cells, stats = _M.stats, histograms = _M.histograms, totals = _M.totals,
    }
    make_jobs(options)
    for _, name in ipairs(options.names) do
        local settings = options.upstreams[name]
        local live = upstream_sync.begin(_M, name, settings)
        live.shards = shards_of(name, settings)
        _M.has_hosts = _M.has_hosts or settings.host ~= nil
        _M.closes_sessions = _M.closes_sessions or settings.closes_sessions
        _M.upstreams[name] = live
    end
    if options.any_upstream then
        _M.closes_sessions = _M.closes_sessions or options.any_upstream.closes_sessions
        list_fetch.restore(options, _M.store)
        listed_upstreams.follow(_M, upstream_sync.begin, no_pause) -- before the tables of its upstreams are restored
    end
    saved_tables.restore(options, _M.store)
    -- Sync once now: a worker that starts late (a reload, a crash) serves the current table from its first request on.
    upstream_sync.all(_M, false)
    _M.flush()
    assert(ngx.timer.at(0, on_timer))
    assert(ngx.timer.every(TICK_S, on_timer))
    _M.broken = nil
end


--- Seed this worker's random numbers. nginx forks its workers: without a seed of their own, or with one from the clock,
-- all of them would walk their rings in step.
local function seed()
    local value = ngx.worker.pid() * 65536 + ngx.now() * 1000
    local file = io.open("/dev/urandom", "rb")
    if file then
        local bytes = file:read(6) or ""
        file:close()
        for i = 1, #bytes do
            value = (value * 256 + string.byte(bytes, i)) % 2 ^ 48
        end
    end
    math.randomseed(value)
end


--- init_worker_by_lua: start Steelyard in this worker. A bad option is logged in one line, with its name and the
-- remedy. nginx goes on after a failed init_worker, so later requests are answered with that line.
-- @param check function(options): core/options' check, or a stricter one
function _M.init(options, check)
    if not ngx.worker.id() then
        return -- a helper process, which serves no requests
    end
    seed()
    local ok, err = pcall(function()
        start((check or options_of.check)(options))
    end)
    if not ok then
        _M.broken = tostring(err)
        ngx.log(ngx.ERR, _M.broken)
    end
end


return _M
