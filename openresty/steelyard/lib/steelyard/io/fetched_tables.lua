--- Take what a source had of an upstream's weight table, and say what became of it: once, in words, and
-- in the counters of the status page.

local saved_tables = require "steelyard.io.saved_tables"
local table_acceptance = require "steelyard.io.table_acceptance"

local _M = {}


--- Count why a value was refused, if it was, and log it when that changed. Each kind of source
-- has an outcome of its own: two sources that differ would be logged at every fetch.
-- @param what    `weight table`, or the head of one
-- @param remedy  what is done when it is refused
local function note(store, upstream, source, refused, what, remedy)
    local absent = refused and refused.reason == "absent"
    if refused and not absent then
        store:count_refused(upstream, refused.reason, refused.detail)
    end
    if store:outcome_changed(upstream .. source.outcome, refused and refused.reason or "ok") then
        if absent then
            ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the ", what, " of ", source.name, " is not whole: ",
                    refused.detail, "; ", remedy, ", and they are asked for again")
        elseif refused then
            ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the ", what, " of ", source.name, " is refused (",
                    refused.reason, "): ", refused.detail, "; ", remedy)
        else
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": ", what, " taken from ", source.name)
        end
    end
end


--- Accept or refuse the value of a table; true when it was new.
function _M.accept(options, store, upstream, value, source, breathe)
    if not options.upstreams[upstream] then
        return false -- the list of upstreams has lost it since this walk began
    end
    source.saved = saved_tables.path(options, upstream)
    local is_new, refused = table_acceptance.accept(options, store, upstream, value, source, breathe)
    note(store, upstream, source, refused, "weight table", "the last table holds")
    return is_new
end


--- Accept or refuse the value of a head; whether it does for the table.
function _M.accept_head(options, store, upstream, value, server, breathe)
    if not options.upstreams[upstream] then
        return false -- as above
    end
    local source = { name = "memcached " .. server, outcome = "/head" }
    source.saved = saved_tables.path(options, upstream)
    local suffices, refused = table_acceptance.accept_head(options, store, upstream, value, source, breathe)
    if suffices or refused then
        note(store, upstream, source, refused, "head of the weight table", "the whole table is read")
    end
    if suffices then
        store:outcome_changed(upstream, "ok")
    end
    return suffices
end


return _M
