--- Close sessions of this worker: those at servers that have left, and those that are too old.

local clock = require "steelyard.io.clock"
local connections = require "steelyard.io.connections"
local long_sessions = require "steelyard.core.long_sessions"

-- The time between two looks at all requests, 0.15 us each. While sessions are being closed, each tick looks.
local LOOK_INTERVAL_S = 0.5

local sessions, next_look = long_sessions.new(math.random), 0

local _M = {}


--- Close some of them, in one turn without a pause: a connection may belong to another request in the next turn.
function _M.run(worker)
    local now = clock.monotonic()
    if not worker.closes_sessions or now < next_look then
        return
    end
    local targets = sessions:due(worker.requests.open, worker.upstreams, now)
    if not next(targets) then
        next_look = now + LOOK_INTERVAL_S
        return
    end
    connections.shut(targets)
    for _, target in pairs(targets) do
        if target.closed > 0 then
            worker.dict:incr("sessions_closed/" .. target.upstream, target.closed, 0)
        end
    end
end


return _M
