--- The values that a shared dict of another size takes over at a reload (io/dict_snapshot): the tables, the marks of
-- health and the list of upstreams.
--
-- Counts begin at 0 in the new dict, as after a restart of nginx.

local clock = require "steelyard.io.clock"
local dict_snapshot = require "steelyard.io.dict_snapshot"
local list_fetch = require "steelyard.io.list_fetch"
local listed_upstreams = require "steelyard.phase.listed_upstreams"
local shared_counters = require "steelyard.io.shared_counters"
local table_store = require "steelyard.io.table_store"
local timers = require "steelyard.io.timers"

local LOG_EVERY_S = 60

-- A mark that is younger than this at a reload with another size may be lost.
local _M = { INTERVAL_S = 1 }

if ngx.get_phase() == "init" then
    -- An error would stop the reload; without the values, the new workers fetch them.
    timers.guarded("nothing is taken over from the last shared dict: ", dict_snapshot.restore,
                   shared_counters.is_unused)
end


--- Save the values of all upstreams. Runs in one worker's timer.
function _M.save(worker)
    local groups = {}
    if worker.options.any_upstream then
        groups[1] = { listed_upstreams.SERVED }
        table_store.add_keys(groups[1], list_fetch.name(worker.options))
    end
    for _, name in ipairs(worker.options.names) do
        local keys = {}
        table_store.add_keys(keys, name)
        worker.health:add_keys(keys, name)
        keys[#keys + 1] = "eject/" .. name
        groups[#groups + 1] = keys
    end
    local _, err = dict_snapshot.save(worker.dict, groups, clock.breather())
    if err and worker.dict:once("snapshot_logged", LOG_EVERY_S) then
        ngx.log(ngx.ERR, "steelyard: ", err)
    end
end


return _M
