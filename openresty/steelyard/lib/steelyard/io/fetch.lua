--- Fetch the weight tables: from Memcached, and from the controllers if Memcached brings nothing new.
--
-- From Memcached, the heads of all tables are read first. The table itself is read only if its head is not enough:
--
--   - The table's servers or settings have changed.
--   - Its rows were read long ago.
--   - The head is absent or refused.
--   - No new table has arrived for a while, or the present one comes from disk.
--
-- Runs in one worker's timer and touches no request: after a failed fetch or a refused value the last table stays.

local clock = require "steelyard.io.clock"
local controller_source = require "steelyard.io.controller_source"
local memcached_client = require "steelyard.io.memcached_client"
local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"
local table_sources = require "steelyard.io.table_sources"
local wire = require "steelyard.core.wire"

local FETCH = "!fetch" -- no upstream can have this name

local _M = {}

-- The index of the name at which this worker begins its next walk: the last walk stopped there.
local next_to_read = 1


--- Read one kind of key for the upstreams. Return upstream -> value, the server, and how many keys were asked for; nil
-- and the reason.
local function read(options, kind, names, breathe)
    if #names == 0 then
        return {}, nil, 0
    end
    local keys = {}
    for i, upstream in ipairs(names) do
        keys[i] = wire.key(kind, upstream)
    end
    local by_key, server, asked = memcached_client.get_all(options.memcached, keys, breathe)
    if not by_key then
        return nil, server
    end
    local values = {}
    for i, upstream in ipairs(names) do
        values[upstream] = by_key[keys[i]]
    end
    return values, server, asked
end


--- Read the heads of tables, and the tables whose heads are not enough. Return nil and the reason, or
-- { names, tables: values by name, server, old: the names with old rows } and how many upstreams were finished.
local function read_changed(options, store, names, breathe)
    local heads, server, asked = read(options, "head", names, breathe)
    if not heads then
        return nil, server
    end
    local wanted, places, old = {}, {}, {}
    table_sources.for_each(names, breathe, function(upstream, i)
        if i > asked then
            return
        end
        old[upstream] = table_acceptance.is_old(options, upstream)
        -- Before the head is looked at: an error there leaves the table wanted.
        wanted[#wanted + 1], places[#places + 1] = upstream, i
        local head = not old[upstream] and heads[upstream]
        if head and table_sources.accept_head(options, store, upstream, head, server, breathe)
           and not table_sources.is_late(options, store, upstream) then
            wanted[#wanted], places[#places] = nil, nil
        end
    end)
    local tables, table_server, fetched = read(options, "weights", wanted, breathe)
    if not tables then
        return nil, table_server
    end
    for i = fetched + 1, #wanted do
        wanted[i] = nil
    end
    local finished = asked
    if fetched < #places then
        finished = places[fetched + 1] - 1
    end
    return { names = wanted, tables = tables, server = table_server, old = old }, finished
end


--- Read the tables from Memcached; return whether it answered.
local function from_memcached(options, store, breathe)
    local names = table_sources.names_from(options.names, next_to_read)
    if #names == 0 then
        return true -- no upstream is declared or listed yet
    end
    local changed, finished = read_changed(options, store, names, breathe)
    if not changed then
        local err = finished
        store:count_error("fetch", err)
        if store:outcome_changed(FETCH, "unreachable") then
            local rest = #options.controller > 0 and "the controller is asked" or "the last tables hold"
            ngx.log(ngx.WARN, "steelyard: no weight tables fetched (", err, "); ", rest)
        end
        return false
    end
    if store:outcome_changed(FETCH, "ok") then
        ngx.log(ngx.NOTICE, "steelyard: Memcached answers")
    end
    next_to_read = (next_to_read + finished - 1) % #names + 1
    table_sources.for_each(changed.names, breathe, function(upstream)
        local value = changed.tables[upstream]
        if value then
            local source = { name = "memcached " .. changed.server, outcome = "", read = function(keys)
                return memcached_client.get_all(options.memcached, keys, breathe)
            end, anew = changed.old[upstream] }
            table_sources.accept(options, store, upstream, value, source, breathe)
        elseif store:outcome_changed(upstream, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": no weight table in Memcached")
        end
    end)
    return true
end


--- Fetch once, for all upstreams; save changed tables on disk.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.run(options, store, breathe)
    local answered = from_memcached(options, store, breathe)
    if #options.controller > 0 then
        controller_source.run(options, store, answered, breathe)
    end
    table_sources.for_each(options.names, breathe, function(upstream)
        saved_tables.keep(options, store, upstream, clock.now(), breathe)
    end)
end


return _M
