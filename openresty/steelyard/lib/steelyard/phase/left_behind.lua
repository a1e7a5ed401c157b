--- What workers that a reload sends off still serve: they say it until it ends, and one worker of those after them
-- has it in flight for all. The memory that workers share of their servers is another after a reload; the shared
-- dict is not.

local peer_cells = require "steelyard.core.peer_cells"

-- How often a worker that leaves says it. nginx may wait so long for the worker after its last request.
local EVERY_S = 0.5

local carried, carried_at = {}, nil -- cell -> requests in this worker's column that are not its own, and as of when

local _M = {}


--- What is left to do for a worker whose timers have stopped: until its last request ends, and then nginx ends it.
-- @param look what to do before each time
function _M.leave(worker, look)
    worker.leaving = true
    worker.flush()
    while next(worker.requests.open) do
        ngx.sleep(EVERY_S)
        look()
        worker.flush()
    end
end


--- Have in flight what workers of before still serve.
function _M.carry(worker)
    local in_flight, said_at = worker.counters:left_behind(carried_at)
    if not in_flight then
        return
    end
    local wanted = {}
    for _, live in pairs(worker.upstreams) do
        for address, requests in pairs(in_flight) do
            wanted[live.addresses[address] or peer_cells.NONE] = requests
        end
    end
    wanted[peer_cells.NONE] = nil
    for cell, requests in pairs(wanted) do
        worker.stats:raise(cell, requests - (carried[cell] or 0))
        carried[cell] = nil
    end
    for cell, requests in pairs(carried) do
        worker.stats:raise(cell, -requests) -- they have ended, or nobody serves it: it may be another's next
    end
    carried, carried_at = wanted, said_at
end


return _M
