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
local shared_counters = require "steelyard.io.shared_counters"

local FIELDS = { "completed", "failed" }

-- Peers between two calls of breathe().
local ROWS_PER_BREATH = 20

local NO_TOTALS = setmetatable({}, { __index = function() return 0 end })

local _M = {}


--- The peers that would be eligible if all were healthy; the same list if those are all.
local function in_use(peers)
    local up, backup = {}, {}
    for i = 1, #peers do
        local list = peers[i].state == "up" and up or peers[i].state == "backup" and backup
        if list then
            list[#list + 1] = peers[i]
        end
    end
    local used = #up > 0 and up or backup
    return #used == #peers and peers or used
end


--- The tries at a peer since the last totals: completed, failed.
-- @param at the place of its `completed` in the totals
local function tries_of(totals, before, at)
    local completed, failed = totals[at], totals[at + 1]
    -- Totals that are below the last ones began anew: the address was forgotten.
    if completed >= before[at] and failed >= before[at + 1] then
        completed, failed = completed - before[at], failed - before[at + 1]
    end
    return completed, failed
end


local function add(pool, completed, failed)
    pool.completed, pool.failed = pool.completed + completed, pool.failed + failed
end


--- The figures that outlier_detection.judge takes, and the sum of all.
--
-- A peer of an upstream with rules of its own (core/own_failures) has two pairs of counts: of the tries through this
-- upstream, and of all at its address. The first one counts, or the second one if that alone shows a bad server.
-- @param n          counts of a peer in the totals, 2 or 4
-- @param error_rate the option
local function figures_of(peers, totals, before, n, error_rate, memory, reported, breathe)
    local figures, pool = {}, { peers = #peers, completed = 0, failed = 0 }
    local pool_of_addresses = n > #FIELDS and { peers = #peers, completed = 0, failed = 0 } or nil
    for i = 1, #peers do
        local address, own_pool = peers[i].address, nil
        local completed, failed = tries_of(totals, before, n * i - 2)
        add(pool, completed, failed)
        if pool_of_addresses then
            local all_completed, all_failed = tries_of(totals, before, n * (i - 1))
            add(pool_of_addresses, all_completed, all_failed)
            local share = all_failed / math.max(1, all_completed + all_failed)
            if share >= error_rate and share > failed / math.max(1, completed + failed) then
                completed, failed, own_pool = all_completed, all_failed, pool_of_addresses
            end
        end
        if failed > 0 or memory[peers[i].id] then
            figures[#figures + 1] = {
                id = peers[i].id, address = address, completed = completed, failed = failed,
                others = reported[address], pool = own_pool,
            }
        end
        breathe(i, ROWS_PER_BREATH)
    end
    return figures, pool
end


--- The fields of the counts, for each peer.
local function fields_of(live)
    if not live.own_failures then
        return FIELDS
    end
    local fields = { unpack(FIELDS) }
    for i = 1, #FIELDS do
        fields[#fields + 1] = shared_counters.own_field(live.name, FIELDS[i])
    end
    return fields
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
    local fields, settings = fields_of(live), live.settings.eject
    local totals, before = counters:since_last("ejecting/" .. name, peers, fields, breathe)
    local memory = json.decode(dict:get(key) or "") or {}
    local reported = json.decode(dict:get("others_failures/" .. name) or "") or {}
    -- The first run judges by all tries since the start. Pickers avoid a server that fails, so a second interval
    -- might have too few.
    local figures, pool = figures_of(peers, totals, before or NO_TOTALS, #fields, settings.error_rate, memory, reported,
                                     breathe)
    if #figures == 0 and next(memory) == nil then
        return -- no server fails
    end
    local decisions
    memory, decisions = outlier_detection.judge(memory, figures, pool, settings, now)
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
