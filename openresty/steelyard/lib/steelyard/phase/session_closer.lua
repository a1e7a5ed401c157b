--- Close the sessions of this worker whose time has come: those of servers that have left, and those that are too old.

local address = require "steelyard.core.address"
local clock = require "steelyard.io.clock"
local connections = require "steelyard.io.connections"
local long_sessions = require "steelyard.core.long_sessions"

-- How often requests are looked at: 0.05 us each. While some are to be closed it is every tick.
local LOOK_S = 0.5

local sessions, next_look = long_sessions.new(math.random), 0

local _M = {}


--- What connections go by, of what is due.
local function targets_of(due)
    local targets = {}
    for _, each in ipairs(due) do
        if each.server then
            targets[address.key_of(string.match(each.server, "^(.*):(%d+)$"))] =
                { count = each.count, closed = 0, upstream = each.upstream }
        else
            local host, port, own_host, own_port = string.match(each.client, "^(%S+) (%d+) (%S+) (%d+)$")
            local key = host and address.key_of(host, port) -- a client at a Unix socket has no port
            local target = key and (targets[key] or { count = 0, closed = 0, locals = {}, upstream = each.upstream })
            if target and target.locals then
                target.count, target.locals[address.key_of(own_host, own_port)] = target.count + 1, true
                targets[key] = target
            end
        end
    end
    return targets
end


--- Whether an upstream's sessions are ever closed.
_M.wanted = long_sessions.wanted


--- Close some. In one turn, without a pause: who has which connection is true in that turn alone.
function _M.run(worker)
    local now = clock.monotonic()
    if now < next_look then
        return
    end
    local targets = targets_of(sessions:due(worker.requests.open, worker.upstreams, now))
    next_look = next(targets) and now or now + LOOK_S
    if not next(targets) then
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
