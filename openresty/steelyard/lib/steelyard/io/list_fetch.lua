--- Fetch the list of upstreams from Memcached, for the option `any_upstream`, and publish it to all workers.
--
-- It stands in the table store, under a name that no upstream can have: signature, format, order and
-- the guard against recordings are as of a table. A list that cannot be read, or is refused, leaves the last
-- one where it is. With `state_dir` a copy is kept on disk, for a start while Memcached is away.
--
-- A first list is not confirmed at a controller, as a first table is: what an old one names in vain has a table
-- that is confirmed, or none; and the leader puts its own in its place at the next tick, which is then the later
-- one for good. Until then a name of the last day may be missing.

local memcached_client = require "steelyard.io.memcached_client"
local no_pause = require("resty.vnswrr").no_pause
local saved_tables = require "steelyard.io.saved_tables"
local signature = require "steelyard.io.signature"
local table_acceptance = require "steelyard.io.table_acceptance"
local table_sources = require "steelyard.io.table_sources"
local upstream_list = require "steelyard.core.upstream_list"
local wire = require "steelyard.core.wire"

local NAME, KEY = "!upstreams", wire.key("upstreams")

local _M = { NAME = NAME }

local last_taken -- the last value that was not refused, in this worker: the same one is not opened again


local function accept(options, store, value, source, breathe)
    local text, refused = signature.open_with_any(options.keys.tables, value, breathe)
    local listed
    if text then
        listed, refused = upstream_list.decode(text)
    end
    if not listed then
        return nil, refused
    end
    return table_acceptance.publish_later(options, store, NAME, { table = listed, text = text }, source)
end


--- Read the list; what is new is published.
function _M.run(options, store, breathe)
    local by_key, server = memcached_client.get_all(options.memcached, { KEY }, breathe)
    if not by_key then
        return -- the fetch of tables says so
    end
    local value = by_key[KEY]
    if not value then
        if store:outcome_changed(NAME, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: no list of upstreams in Memcached; what is known of them stays")
        end
        return
    end
    if value == last_taken then
        return
    end
    local source = { name = "memcached " .. server, outcome = "", saved = saved_tables.list_path(options) }
    local is_new, refused = accept(options, store, value, source, breathe)
    last_taken = not refused and value or nil
    table_sources.note(store, NAME, source, refused, "list of upstreams", "the last one holds")
    if is_new then
        saved_tables.write_list(options, store, store:table_text(NAME))
    end
end


--- At the start of a worker: begin with the list on disk, where there is none yet.
function _M.restore(options, store)
    local value = not store:table_text(NAME) and saved_tables.read_list(options)
    local is_new, refused
    if value then
        is_new, refused = accept(options, store, value, { from_disk = true }, no_pause)
    end
    if refused and store:outcome_changed(NAME .. "/saved", refused.reason) then
        ngx.log(ngx.WARN, "steelyard: the saved list of upstreams is refused (", refused.reason, "): ", refused.detail)
    elseif is_new and store:outcome_changed(NAME .. "/saved", "ok") then
        ngx.log(ngx.NOTICE, "steelyard: begins with the saved list of upstreams")
    end
end


return _M
