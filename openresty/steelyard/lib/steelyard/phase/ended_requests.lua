--- Requests that are no longer in flight. One that ended in a location with a log_by_lua of its own is closed. One
-- whose server nginx is done with, while the client still reads, lets go of the server.
--
-- A look walks over all open requests of this worker. One comes with each tick (phase/worker), because a server may
-- seem full to the other workers, too. Another one comes before a request is refused because all servers are full. If a
-- picker only passes over a server that seems full, no look comes: another server has room, and a walk for each pick
-- would cost more.

local clock = require "steelyard.io.clock"
local request_end = require "steelyard.io.request_end"

-- The shares of a core that looks may take: with the ticks, and for requests that would be refused. A look takes 0.5 to
-- 1 ms with 10,000 open requests. Then 10 to 20 ms pass before the next one for a refused request.
local CORE_SHARE, CORE_SHARE_OF_REFUSALS = 0.005, 0.05

-- The garbage to collect, 0.2 ms of work, each GARBAGE_INTERVAL_S while requests with a witness are open for that long.
local GARBAGE_STEP_KB, GARBAGE_INTERVAL_S = 256, 1

-- A connection in stream {} is at its server until it is closed.
local is_over_at_server = ngx.config.subsystem == "http" and request_end.is_over_at_server or nil

local next_look_s, next_garbage_s, next_refusal_s = 0, 0, 0

local _M = {}


--- Give back the probes of half-open servers among the ended requests, and log the number of these: their outcomes are
-- unknown.
local function settle(worker)
    for _, probe in ipairs(worker.requests:take_unknown_probes()) do
        worker.health:give_back_probe(probe.upstream, probe.peer)
    end
    for name, count in pairs(worker.requests:take_unlogged()) do
        worker.dict:incr("unlogged/" .. name, count, 0)
        worker.log_seldom("unlogged_logged/" .. name, ngx.ERR, name, count, " requests were counted as in flight ",
                          "after their end: a location, or a server of stream {}, has a log_by_lua of its own; call ",
                          "Steelyard's log() in it")
    end
end


--- Close and let go. Return what close_ended() returns, and the CPU time in seconds.
local function look(requests, started, now)
    local began_s = clock.thread_cpu()
    local others, closed = requests:close_ended(started, is_over_at_server, now)
    return others, closed, clock.thread_cpu() - began_s
end


--- Look if that is due, and log the number of closed requests: they would be in flight for ever. In stream {} some
-- are found when their garbage is collected, and an idle worker does not collect by itself.
function _M.close(worker)
    local now_s = clock.monotonic()
    if now_s < next_look_s then
        return
    end
    local time_of_day = ngx.now() -- as ngx.req.start_time() has it
    local others, _, took_s = look(worker.requests, time_of_day - GARBAGE_INTERVAL_S, time_of_day)
    next_look_s = now_s + took_s / CORE_SHARE
    if others and now_s >= next_garbage_s then
        next_garbage_s = now_s + GARBAGE_INTERVAL_S
        collectgarbage("step", GARBAGE_STEP_KB)
    end
    settle(worker)
end


--- Look for a request that found all servers full. Return whether any request is no longer in flight.
function _M.make_room(worker)
    local now_s = clock.monotonic()
    if now_s < next_refusal_s then
        return false
    end
    local _, closed, took_s = look(worker.requests)
    next_refusal_s = now_s + took_s / CORE_SHARE_OF_REFUSALS
    return closed > 0
end


return _M
