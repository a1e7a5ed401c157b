--- The jobs that one worker does for all (io/job_lock): fetch, report, snapshot, the exchange of failures; and for each
-- upstream ejection and checks. Each tick of a worker looks for jobs that are due.

local clock = require "steelyard.io.clock"
local clock_phase = require "steelyard.core.clock_phase"
local ejection = require "steelyard.io.ejection"
local failure_exchange = require "steelyard.io.failure_exchange"
local fetch = require "steelyard.io.fetch"
local health_checker = require "steelyard.io.health_checker"
local job_lock = require "steelyard.io.job_lock"
local list_fetch = require "steelyard.io.list_fetch"
local snapshot = require "steelyard.phase.snapshot"

local _M = {}
local mt = { __index = _M }


--- Make the jobs of a worker.
-- @param worker phase/worker; its parts may be set later
function _M.new(worker)
    local self = setmetatable({ worker = worker }, mt)
    self.next_name = 0 -- the index, from 0, at which the next look begins: jobs that found no room come first

    --- Judge the servers of an upstream, unless it was removed since the timer was set.
    function self.eject(name)
        local live = worker.upstreams[name]
        if live then
            ejection.run(live, clock.now(), worker.dict, worker.counters, worker.health)
        end
    end

    --- Check the servers of an upstream, unless it was removed since the timer was set.
    function self.check(name)
        local live = worker.upstreams[name]
        if live then
            worker.checker:run(live, clock.now())
        end
    end

    return self
end


--- Do the jobs for all upstreams that are due in this worker.
function _M:run()
    local worker = self.worker
    local options, dict = worker.options, worker.dict
    local fetch_s, report_s = options.fetch_interval_s, options.report_interval_s
    job_lock.run(dict, "fetch", fetch_s, clock_phase.FETCH_S + clock_phase.spread_s(options.lb, fetch_s), function()
        dict:fill_reserve()
        if options.any_upstream then
            list_fetch.run(options, worker.store, clock.breather())
        end
        if #options.names > 0 then
            fetch.run(options, worker.store, clock.breather())
        end
    end)
    job_lock.run(dict, "report", report_s, clock_phase.REPORT_S + clock_phase.spread_s(options.lb, report_s), function()
        worker.reporter:run(ngx.now(), clock.breather())
    end)
    job_lock.run(dict, "snapshot", snapshot.INTERVAL_S, nil, function()
        snapshot.save(worker)
    end)
    if worker.others then
        job_lock.run(dict, "failures", failure_exchange.INTERVAL_S, nil, function()
            worker.failures:run(clock.breather())
        end)
    end
end


--- Do the jobs of single upstreams that are due in this worker, all in one timer.
function _M:run_for_upstreams()
    local worker, taken, first = self.worker, {}, self.next_name
    local names, dict = worker.options.names, worker.dict
    for i = 0, #names - 1 do
        local at = (first + i) % #names
        local name = names[at + 1]
        local live = worker.upstreams[name]
        local eject, check, has_room = live.settings.eject, live.check, true
        if eject then
            has_room = job_lock.take_together(dict, taken, "eject/" .. name, eject.interval_s, self.eject, name)
        end
        if check then
            local is_taken = job_lock.take_together(dict, taken, "check/" .. name,
                                                    health_checker.poll_interval_s(check), self.check, name)
            has_room = has_room and is_taken
        end
        if not has_room and self.next_name == first then
            self.next_name = at
        end
    end
    job_lock.run_together(dict, taken)
end


return _M
