--- Fetch the list of upstreams from Memcached, for the option `any_upstream`, and publish it to all workers.
--
-- Each installation has a list. It is in the table store, under a name that no upstream can have. It is checked as a
-- table is: signature, format, order and the guard against recordings. After a failed or refused read the last list
-- stays. With `state_dir` a copy is kept on disk, for a start while Memcached is away.
--
-- A first list is not confirmed at a controller, as a first table is. If it is an old one, each name in it has a
-- confirmed table, or none. The leader replaces it at its next tick with a later one. Until then, names that were added
-- within the last day may be missing.

local memcached_client = require "steelyard.io.memcached_client"
local no_pause = require("resty.vnswrr").no_pause
local saved_tables = require "steelyard.io.saved_tables"
local signature = require "steelyard.io.signature"
local table_acceptance = require "steelyard.io.table_acceptance"
local table_sources = require "steelyard.io.table_sources"
local upstream_list = require "steelyard.core.upstream_list"
local wire = require "steelyard.core.wire"

local _M = {}

local last_accepted -- the last value that this worker accepted: it is not opened again


--- The name of this installation's list in the table store. After a reload with another installation, nothing of the
-- previous list counts.
function _M.name(options)
    return options.installation and "!upstreams/" .. options.installation or "!upstreams"
end


local function accept(options, store, value, source, breathe)
    local text, refused = signature.open_with_any(options.keys.tables, value, breathe)
    local listed
    if text then
        listed, refused = upstream_list.decode(text)
    end
    if not listed then
        return nil, refused
    end
    return table_acceptance.publish_later(options, store, _M.name(options), { table = listed, text = text }, source)
end


--- Read the list, and publish a new one.
function _M.run(options, store, breathe)
    local name, key = _M.name(options), wire.key("upstreams", options.installation)
    local by_key, server = memcached_client.get_all(options.memcached, { key }, breathe)
    if not by_key then
        return -- io/fetch logs it
    end
    local value = by_key[key]
    if not value then
        if store:outcome_changed(name, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: no list of upstreams in Memcached (", key, "); the last one holds")
        end
        return
    end
    if value == last_accepted then
        return
    end
    local source = { name = "memcached " .. server, outcome = "", saved = saved_tables.list_path(options) }
    local is_new, refused = accept(options, store, value, source, breathe)
    if refused then
        last_accepted = nil
    else
        last_accepted = value
    end
    table_sources.note(store, name, source, refused, "list of upstreams", "the last one holds")
    if is_new then
        saved_tables.write_list(options, store, store:table_text(name))
    end
end


--- At the start of a worker: begin with the list on disk, unless there is one already.
function _M.restore(options, store)
    local name = _M.name(options)
    local value = not store:table_text(name) and saved_tables.read_list(options)
    local is_new, refused
    if value then
        is_new, refused = accept(options, store, value, { from_disk = true }, no_pause)
    end
    if refused and store:outcome_changed(name .. "/saved", refused.reason) then
        ngx.log(ngx.WARN, "steelyard: the saved list of upstreams is refused (", refused.reason, "): ", refused.detail)
    elseif is_new and store:outcome_changed(name .. "/saved", "ok") then
        ngx.log(ngx.NOTICE, "steelyard: begins with the saved list of upstreams")
    end
end


return _M
