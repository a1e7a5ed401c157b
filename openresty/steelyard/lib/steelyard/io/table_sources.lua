--- Common to the sources of weight tables and of the list of upstreams: the walk over all upstreams, and what becomes
-- of a value. It is accepted or refused, logged once, and counted for the status page.

local clock = require "steelyard.io.clock"
local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"
local timers = require "steelyard.io.timers"
local wire = require "steelyard.core.wire"

-- As a part of fresh_s: two tables in a row are missing, and a controller can still answer before they are stale.
local ASK_AFTER = 2 / 3

local _M = {}


--- Do work(upstream, i) for each upstream. An error for one is logged, and does not affect the others.
function _M.for_each(names, breathe, work)
    for i, upstream in ipairs(names) do
        timers.guarded("upstream " .. upstream .. ": not fetched: ", work, upstream, i)
        breathe()
    end
end


--- The names, beginning with the one at `first`.
function _M.names_from(names, first)
    local order = {}
    for i = 1, #names do
        order[i] = names[(first + i - 2) % #names + 1]
    end
    return order
end


--- Whether an upstream has had no new table for so long that its source may be down.
function _M.is_late(options, store, upstream)
    local arrived_at = store:arrived_at(upstream)
    return not arrived_at or store:from_disk(upstream)
           or clock.monotonic() - arrived_at > ASK_AFTER * options.limits.fresh_s
end


--- Count a refusal, and log the outcome if it changed. Each kind of source has an outcome of its own, because two
-- sources with different outcomes would be logged at every fetch.
-- @param upstream its name, or the list's name in the store
-- @param what     what was read, in words: "weight table", "head of the weight table", "list of upstreams"
-- @param remedy   what happens after a refusal, in words
function _M.note(store, upstream, source, refused, what, remedy)
    local absent = refused and refused.reason == "absent"
    local prefix = wire.is_name(upstream) and "upstream " .. upstream .. ": " or ""
    if refused and not absent then
        store:count_refused(upstream, refused.reason, refused.detail)
    end
    if store:outcome_changed(upstream .. source.outcome, refused and refused.reason or "ok") then
        if absent then
            ngx.log(ngx.WARN, "steelyard: ", prefix, "the ", what, " of ", source.name, " is not whole: ",
                    refused.detail, "; ", remedy, ", and they are asked for again")
        elseif refused then
            ngx.log(ngx.WARN, "steelyard: ", prefix, "the ", what, " of ", source.name, " is refused (",
                    refused.reason, "): ", refused.detail, "; ", remedy)
        else
            ngx.log(ngx.NOTICE, "steelyard: ", prefix, what, " taken from ", source.name)
        end
    end
end


--- Accept or refuse the value of a table; return true if it was new.
function _M.accept(options, store, upstream, value, source, breathe)
    if not options.upstreams[upstream] then
        return false -- the list of upstreams no longer has it
    end
    source.saved = saved_tables.path(options, upstream)
    local is_new, refused = table_acceptance.accept(options, store, upstream, value, source, breathe)
    _M.note(store, upstream, source, refused, "weight table", "the last table holds")
    return is_new
end


--- Accept or refuse the value of a head; return whether it is enough.
function _M.accept_head(options, store, upstream, value, server, breathe)
    if not options.upstreams[upstream] then
        return false -- the list of upstreams no longer has it
    end
    local source = { name = "memcached " .. server, outcome = "/head" }
    source.saved = saved_tables.path(options, upstream)
    local suffices, refused = table_acceptance.accept_head(options, store, upstream, value, source, breathe)
    if suffices or refused then
        _M.note(store, upstream, source, refused, "head of the weight table", "the whole table is read")
    end
    if suffices then
        store:outcome_changed(upstream, "ok")
    end
    return suffices
end


return _M
