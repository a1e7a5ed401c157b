--- Ejection: collect each peer's tries of an interval for core/outlier_detection, and mark the peers that it ejects.
--
--   eject/<upstream>      the memory of core/outlier_detection, as JSON; absent while no server fails
--   ejecting/<upstream>   the totals at the last run (io/shared_counters)
--   others_failures/<upstream>   what other load balancers report of servers that fail (io/failure_exchange)
--
-- Another worker may do the next run, so all of it is in the shared dict. The other passive check, `max_fails` with its
-- half-open probe, is in io/peer_health and phase/request.

local clock = require "steelyard.io.clock"
local json = require "steelyard.core.json"
local outlier_detection = require "steelyard.core.outlier_detection"

local FIELDS = { "completed", "failed" }

-- Peers between two calls of breathe().
local ROWS_PER_BREATH = 20

local NO_TOTALS = setmetatable({}, { __index = function() return 0 end })

local _M = {}


--- The peers that would be eligible if all were healthy.
local function in_use(peers)
    local up, backup = {}, {}
    for i = 1, #peers do
        local list = peers[i].state == "up" and up or peers[i].state == "backup" and backup
        if list then
            list[#list + 1] = peers[i]
        end
    end
    return #up > 0 and up or backup
end


--- The figures that outlier_detection.judge takes, and the sum of all.
local function figures_of(peers, totals, before, memory, reported, breathe)
    local figures, pool = {}, { peers = #peers, completed = 0, failed = 0 }
    for i = 1, #peers do
        local completed, failed = totals[2 * i - 2], totals[2 * i - 1]
        -- Totals that are below the last ones began anew: the address was forgotten.
        if completed >= before[2 * i - 2] and failed >= before[2 * i - 1] then
            completed, failed = completed - before[2 * i - 2], failed - before[2 * i - 1]
        end
        pool.completed, pool.failed = pool.completed + completed, pool.failed + failed
        local address = peers[i].address
        if failed > 0 or memory[peers[i].id] then
            figures[#figures + 1] = {
                id = peers[i].id, address = address, completed = completed, failed = failed,
                others = reported[address],
            }
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return figures, pool
end


--- Mark or clear a peer as decided, and log it.
local function apply(health, name, decision)
    local outcome
    if decision.action == "eject" then
        if health:mark(name, decision, "ejected", decision.reason, decision.out_s) == nil then
            return -- the dict is full, and logs that
        end
        outcome = string.format("is ejected for %g s: %s", decision.out_s, decision.reason)
    else
        -- The mark expires at about this time, too.
        health:clear(name, decision, "ejected")
        outcome = "is back, on probation"
    end
    ngx.log(ngx.NOTICE, "steelyard: upstream ", name, ": ", decision.id, " (", decision.address, ") ", outcome)
end


--- Judge the peers of an upstream by their error rates. Runs in one worker's timer, once in settings.interval_s.
-- @param now      by the monotonic clock
-- @param live     the upstream (core/upstream)
-- @param dict     the shared dict
-- @param counters io/shared_counters
-- @param health   io/peer_health
function _M.run(live, now, dict, counters, health)
    local name, key = live.name, "eject/" .. live.name
    if not live.table then
        return -- no peer has had a request
    end
    local peers = in_use(live.table.peers)
    local breathe = clock.breather()
    local totals, before = counters:since_last("ejecting/" .. name, peers, FIELDS, breathe)
    local memory = json.decode(dict:get(key) or "") or {}
    local reported = json.decode(dict:get("others_failures/" .. name) or "") or {}
    -- The first run judges by all tries since the start. Pickers avoid a server that fails, so a second interval
    -- might have too few.
    local figures, pool = figures_of(peers, totals, before or NO_TOTALS, memory, reported, breathe)
    if #figures == 0 and next(memory) == nil then
        return -- no server fails
    end
    local decisions
    memory, decisions = outlier_detection.judge(memory, figures, pool, live.settings.eject, now)
    if next(memory) then
        dict:set(key, assert(json.encode(memory)))
    else
        dict:delete(key)
    end
    for i = 1, #decisions do
        apply(health, name, decisions[i])
    end
end


return _M
