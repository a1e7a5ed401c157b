--- Requests at workers that leave after a reload. Each leaving worker publishes its requests in flight until they end.
-- One of the new workers counts them for all. After a reload the shared memory is another one; the shared dict is not.

local peer_cells = require "steelyard.core.peer_cells"

-- How often a leaving worker publishes. nginx may wait this long for it after its last request.
local EVERY_S = 0.5

local carried, carried_at = {}, nil -- cell -> requests of leaving workers in this worker's column; and their time

local _M = {}


--- From now on, flush as each request ends. A connection that was open when the worker began to leave may bring one
-- more request after its last timer.
local function flush_at_close(worker)
    local requests = worker.requests
    local close = requests.close
    function requests:close(key)
        close(self, key)
        worker.flush()
    end
end


--- Publish a leaving worker's requests until the last one ends. Its timers have stopped, and nginx ends it afterwards.
-- @param look function that is called before each time
function _M.leave(worker, look)
    worker.leaving = true
    worker.counters:leave()
    worker.flush()
    while worker.flushing or next(worker.requests.open) do
        ngx.sleep(EVERY_S)
        look()
        worker.flush()
    end
    flush_at_close(worker)
end


--- Count the requests of leaving workers as in flight.
function _M.carry(worker)
    local in_flight, published_at = worker.counters:left_behind(carried_at)
    if not in_flight then
        return
    end
    local wanted = {}
    for _, live in pairs(worker.upstreams) do
        for address, requests in pairs(in_flight) do
            local cell = live.addresses[address]
            if cell and cell ~= peer_cells.NONE then
                wanted[cell] = requests
            end
        end
    end
    for cell, requests in pairs(wanted) do
        worker.stats:raise(cell, requests - (carried[cell] or 0))
        carried[cell] = nil
    end
    for cell, requests in pairs(carried) do
        worker.stats:raise(cell, -requests) -- they have ended, or the cell is about to get another server
    end
    carried, carried_at = wanted, published_at
end


return _M
