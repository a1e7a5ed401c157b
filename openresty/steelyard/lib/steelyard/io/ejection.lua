--- Ejection: collect each peer's tries of an interval for core/outlier_detection, and mark the peers that it ejects.
--
--   eject/<upstream>      the memory of core/outlier_detection, as JSON; absent while all is well
--   ejecting/<upstream>   the totals at the last run (io/shared_counters)
--   told/<upstream>       what other load balancers tell of servers that fail (io/failure_exchange)
--
-- The next run may be another worker's, so all of it stands in the shared dict.

local clock = require "steelyard.io.clock"
local json = require "steelyard.core.json"
local outlier_detection = require "steelyard.core.outlier_detection"

local FIELDS = { "completed", "failed" }

-- Peers between two breaths.
local ROWS = 20

local NOTHING_YET = setmetatable({}, { __index = function() return 0 end })

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
local function figures_of(peers, totals, before, memory, told, breathe)
    local figures, pool = {}, { peers = #peers, completed = 0, failed = 0 }
    for i = 1, #peers do
        local completed, failed = totals[2 * i - 2], totals[2 * i - 1]
        if completed >= before[2 * i - 2] and failed >= before[2 * i - 1] then -- else the dict forgot them
            completed, failed = completed - before[2 * i - 2], failed - before[2 * i - 1]
        end
        pool.completed, pool.failed = pool.completed + completed, pool.failed + failed
        local address = peers[i].address
        if failed > 0 or memory[peers[i].id] then
            figures[#figures + 1] = {
                id = peers[i].id, address = address, completed = completed, failed = failed, others = told[address],
            }
        end
        breathe(i, ROWS)
    end
    return figures, pool
end


local function apply(health, name, decision)
    local words
    if decision.action == "eject" then
        health:mark(name, decision, "ejected", decision.reason, decision.out_s)
        words = string.format("is ejected for %g s: %s", decision.out_s, decision.reason)
    else
        health:clear(name, decision, "ejected") -- if the clock was set; it has ended by itself otherwise
        words = "is back, on probation"
    end
    ngx.log(ngx.NOTICE, "steelyard: upstream ", name, ": ", decision.id, " (", decision.address, ") ", words)
end


--- Judge the peers of an upstream by their error rates; in one worker's timer, once in settings.interval_s.
function _M.run(worker, name, now)
    local dict, live, key = worker.dict, worker.upstreams[name], "eject/" .. name
    if not live.table then
        return -- nobody was asked for anything
    end
    local peers = in_use(live.table.peers)
    local breathe = clock.breather()
    local totals, before = worker.counters:since_last("ejecting/" .. name, peers, FIELDS, breathe)
    local memory = json.decode(dict:get(key) or "") or {}
    -- At the first look all that was ever counted is news: pickers that avoid who fails would leave too few
    -- requests for a second one.
    local told = json.decode(dict:get("told/" .. name) or "") or {}
    local figures, pool = figures_of(peers, totals, before or NOTHING_YET, memory, told, breathe)
    if #figures == 0 and next(memory) == nil then
        return -- all is well
    end
    local decisions
    memory, decisions = outlier_detection.judge(memory, figures, pool, live.settings.eject, now)
    if next(memory) then
        dict:set(key, assert(json.encode(memory)))
    else
        dict:delete(key)
    end
    for i = 1, #decisions do
        apply(worker.health, name, decisions[i])
    end
end


return _M
