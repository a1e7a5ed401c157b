--- Fetch the weight tables: from Memcached, and where that brings nothing new
-- from the controllers.
--
-- Of Memcached the heads of all tables are asked for first, and a table only where its head does not do:
-- its servers or settings have changed, or the head is absent, refused, or
-- has brought nothing new for a while, or its rows are old.
--
-- Runs in one worker's timer. Nothing here touches a request: a fetch that
-- fails, and a value that is refused, leave the last table where it is.

local controller_source = require "steelyard.io.controller_source"
local memcached_client = require "steelyard.io.memcached_client"
local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"
local table_sources = require "steelyard.io.table_sources"
local wire = require "steelyard.core.wire"

local FETCH = "!fetch" -- no upstream can have this name

local _M = {}

-- Of the names, in this worker: where the next walk begins, because the last one got no further.
local next_to_read = 1


--- Read a kind of key of the upstreams: upstream -> value, the server, and how many were asked for; nil and why.
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


--- Read the heads of tables, and the tables for which they do not do: their names, the values by name and the
-- server that had them; and how many of the upstreams were got through. nil and why.
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
        wanted[#wanted + 1], places[#places + 1] = upstream, i -- also where the head makes this raise
        local head = not old[upstream] and heads[upstream]
        if head and table_sources.accept_head(options, store, upstream, head, server, breathe)
           and not table_sources.is_late(options, store, upstream) then
            wanted[#wanted], places[#places] = nil, nil
        end
    end)
    local tables, table_server, got = read(options, "weights", wanted, breathe)
    if not tables then
        return nil, table_server
    end
    for i = got + 1, #wanted do
        wanted[i] = nil
    end
    return { names = wanted, tables = tables, server = table_server, old = old },
           got < #places and places[got + 1] - 1 or asked
end


--- Read the tables from Memcached; return whether it answered.
local function from_memcached(options, store, breathe)
    local names = table_sources.names_from(options.names, next_to_read)
    if #names == 0 then
        return true -- none is declared, and none is listed yet
    end
    local changed, through = read_changed(options, store, names, breathe)
    if not changed then
        local err = through
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
    next_to_read = (next_to_read + through - 1) % #names + 1
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


--- Fetch once, for all upstreams; save on disk what changed.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.run(options, store, breathe)
    local answered = from_memcached(options, store, breathe)
    if #options.controller > 0 then
        controller_source.run(options, store, answered, breathe)
    end
    table_sources.for_each(options.names, breathe, function(upstream)
        saved_tables.keep(options, store, upstream, ngx.now(), breathe)
    end)
end


return _M
