--- The state of one worker process, and what it does by the clock.
--
-- One tick each TICK_S: flush the counters, follow the shared tables, and take
-- a turn at a job (fetch, report, health) when one is due. A job does its I/O in
-- a timer of its own.

local board = require "steelyard.phase.board"
local check = require "steelyard.io.check"
local clock = require "steelyard.io.clock"
local fetch = require "steelyard.io.fetch"
local follow = require "steelyard.phase.follow"
local health = require "steelyard.io.health"
local ledger = require "steelyard.core.ledger"
local nowhere = require "steelyard.core.board"
local platform = require "steelyard.io.platform"
local report = require "steelyard.io.report"
local saved = require "steelyard.io.saved"
local shared_memory = require "steelyard.io.shared_memory"
local signature = require "steelyard.io.signature"
local store = require "steelyard.io.store"
local totals = require "steelyard.io.totals"
local turn = require "steelyard.io.turn"
local upstream = require "steelyard.core.upstream"

-- A new table is served by every worker this long after it was fetched.
local TICK_S = 0.1

-- Two or three ticks; reports are once a second.
local FLUSH_S = 0.2

-- Of the interval.
local JITTER = 0.1

local _M = {
    broken = "init_worker was not called",
    leaving = false, -- whether nginx waits for the last requests of this worker
    upstreams = {},
    -- For requests that come though init_worker failed: they get no server.
    ledger = ledger.new(nowhere.new(nowhere.local_memory(1), 1, 1, 0)),
}


--- Add this worker's counters to those of all. Yields if it is given a breather
-- and there is much to add; the next one then waits for its turn.
function _M.flush(breathe)
    if _M.flushing then
        return
    end
    _M.flushing = true
    local serving = {}
    for name, live in pairs(_M.upstreams) do
        serving[name] = live.table and { term = live.table.term, generation = live.table.generation } or nil
    end
    local about = {
        pid = ngx.worker.pid(), slot = _M.totals.slot, serving = serving,
        lua_bytes = collectgarbage("count") * 1024, -- what is garbage and not yet collected is in it
    }
    local ok, err = pcall(_M.totals.flush, _M.totals, _M.ledger, about, breathe)
    _M.flushing = false
    if not ok then
        ngx.log(ngx.ERR, "steelyard: counters not flushed: ", err)
    end
end


--- Note that a server gave no answer at all to a try.
function _M.unanswered(name, peer)
    local live = _M.upstreams[name]
    if live and live.settings.max_fails > 0 then
        _M.health:failed(name, peer, live.settings)
    end
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
        fetch.run(options, _M.store, clock.breather())
    end)
    attempt("report", options.report_interval_s, function()
        report.run(_M, ngx.now(), clock.breather())
    end)
    for _, name in ipairs(options.names) do
        local live = _M.upstreams[name]
        local ejection = live.settings.eject
        if ejection then
            attempt("eject/" .. name, ejection.interval_s, function()
                _M.health:eject(_M, name, ngx.now())
            end)
        end
        if live.check then
            attempt("check/" .. name, check.turn_s(live.check), function()
                check.run(_M, name, ngx.now())
            end)
        end
    end
end


local last_flush = 0

local function flush_if_due(now)
    if math.abs(now - last_flush) >= FLUSH_S then -- abs: the clock may be set back
        last_flush = now
        _M.flush(clock.breather())
    end
end


local function guarded(work, ...)
    local ok, err = pcall(work, ...)
    if not ok then
        ngx.log(ngx.ERR, "steelyard: ", err)
    end
end


local function on_timer(premature)
    if premature then
        -- A reload sends this worker off. Timers stop, requests go on: from now
        -- on each of them leaves its counts when it ends.
        _M.leaving = true
        return _M.flush()
    end
    guarded(flush_if_due, ngx.now())
    guarded(jobs)
    guarded(follow.all, _M, true)
end


--- The names of an upstream's blocks in nginx.conf, when its connections are split.
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


--- Begin: checked options in, timers on.
function _M.start(options)
    local dict = ngx.shared[options.dict]
    if not dict then
        error("steelyard.init_worker: there is no shared dict `" .. options.dict
              .. "`; add `lua_shared_dict " .. options.dict .. " 10m;` to http {}", 0)
    end
    if options.key then
        local usable, missing = signature.available()
        if not usable then
            error("steelyard.init_worker: " .. missing, 0)
        end
    end
    _M.options, _M.dict = options, dict
    _M.store, _M.totals, _M.health = store.new(dict), totals.new(dict), health.new(dict)
    _M.board, _M.board_problem = board(ngx.worker.id())
    _M.ledger = ledger.new(_M.board, shared_memory.map(ledger.bytes(_M.board.cells)))
    _M.totals:enter()
    local context = { random = math.random, board = _M.board, now = ngx.now }
    for _, name in ipairs(options.names) do
        local settings = options.upstreams[name]
        local live = upstream.new(name, settings, context)
        live.shards = shards_of(name, settings)
        follow.begin(_M, live, settings.bootstrap)
        _M.upstreams[name] = live
    end
    saved.restore(options, _M.store)
    -- Once here, so that a worker that is born late (a reload, a crash) never
    -- serves without the table that the others have.
    follow.all(_M, false)
    _M.flush()
    assert(ngx.timer.at(0, on_timer))
    assert(ngx.timer.every(TICK_S, on_timer))
    _M.broken = nil
end


return _M
