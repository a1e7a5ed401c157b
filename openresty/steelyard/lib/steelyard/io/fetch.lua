--- Fetch the weight tables: from Memcached, and where that brings nothing new
-- from the controllers.
--
-- Of Memcached the heads of all tables are asked for first, and a table only where its head does not do:
-- its servers or settings have changed, or the head is absent (a controller of an earlier version), refused, or
-- has brought nothing new for a while.
--
-- Runs in one worker's timer. Nothing here touches a request: a fetch that
-- fails, and a value that is refused, leave the last table where it is.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local http_client = require "steelyard.io.http_client"
local memcached_client = require "steelyard.io.memcached_client"
local saved_tables = require "steelyard.io.saved_tables"
local signed = require "steelyard.core.signed"
local table_acceptance = require "steelyard.io.table_acceptance"
local wire = require "steelyard.core.wire"

-- No upstream can have these names.
local FETCH, CONTROLLER = "!fetch", "!controller"

-- Of fresh_s: two tables in a row are missing, and a controller can still answer before the rung is lost.
local ASK_AFTER = 2 / 3

-- The answer lies in the controller's memory; a megabyte takes some 10 ms.
local TIMEOUT_MS = 500

-- A walk over all upstreams asks controllers for so long; the next one goes on where it stopped. With many
-- upstreams or a slow controller Memcached is thus asked as often as ever.
local ASK_FOR_S = 1

local SIGNATURE = "steelyard-signature"

-- What a status other than 200 and 304 means here.
local MEANINGS = {
    [403] = "the option `controller_token` of init_worker is a token that may not read",
    [404] = "it has no such upstream",
    [503] = "it has no table yet, or no leader",
}

local _M = {}


--- Count why a value was refused, if it was, and log it when that changed. Each kind of source
-- has an outcome of its own: two sources that differ would be logged at every fetch.
-- @param what    `weight table`, or the head of one
-- @param remedy  what is done when it is refused
local function note(store, upstream, source, refused, what, remedy)
    if refused then
        store:count_refused(upstream, refused.reason, refused.detail)
    end
    if store:outcome_changed(upstream .. source.outcome, refused and refused.reason or "ok") then
        if refused then
            ngx.log(ngx.WARN, "steelyard: upstream ", upstream, ": the ", what, " of ", source.name, " is refused (",
                    refused.reason, "): ", refused.detail, "; ", remedy)
        else
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": ", what, " taken from ", source.name)
        end
    end
end


--- Accept or refuse the value of a table; true when it was new.
local function accept(options, store, upstream, value, source, breathe)
    if not options.upstreams[upstream] then
        return false -- the list of upstreams has lost it since this walk began
    end
    source.saved = saved_tables.path(options, upstream)
    local new, refused = table_acceptance.accept(options, store, upstream, value, source, breathe)
    note(store, upstream, source, refused, "weight table", "the last table holds")
    return new
end


--- Accept or refuse the value of a head; whether it does for the table.
local function accept_head(options, store, upstream, value, server, breathe)
    if not options.upstreams[upstream] then
        return false -- as above
    end
    local source = { name = "memcached " .. server, outcome = "/head" }
    source.saved = saved_tables.path(options, upstream)
    local does, refused = table_acceptance.accept_head(options, store, upstream, value, source, breathe)
    if does or refused then
        note(store, upstream, source, refused, "head of the weight table", "the whole table is read")
    end
    if does then
        store:outcome_changed(upstream, "ok")
    end
    return does
end


--- Do work(upstream, i) for each; what fails for one is logged, and changes nothing for the others.
local function for_each(names, breathe, work)
    for i, upstream in ipairs(names) do
        local ok, err = pcall(work, upstream, i)
        if not ok then
            ngx.log(ngx.ERR, "steelyard: upstream ", upstream, ": not fetched: ", err)
        end
        breathe()
    end
end


--- The names, beginning with the one at `first`.
local function names_from(names, first)
    local order = {}
    for i = 1, #names do
        order[i] = names[(first + i - 2) % #names + 1]
    end
    return order
end


-- Of the names, in this worker: where the next walk begins, because the last one got no further.
local next_to_read, next_to_ask = 1, 1


--- Read the keys of the upstreams: upstream -> value, the server, and how many were asked for; nil and why.
local function read(options, key_of, names, breathe)
    if #names == 0 then
        return {}, nil, 0
    end
    local keys = {}
    for i, upstream in ipairs(names) do
        keys[i] = key_of(upstream)
    end
    local found, server, asked = memcached_client.get_all(options.memcached, keys, breathe)
    if not found then
        return nil, server
    end
    local values = {}
    for i, upstream in ipairs(names) do
        values[upstream] = found[keys[i]]
    end
    return values, server, asked
end


--- Whether so long nothing new has come of an upstream that something may be wrong where it comes from.
local function is_late(options, store, upstream)
    local seen = store:seen(upstream)
    return not seen or store:from_disk(upstream) or clock.monotonic() - seen > ASK_AFTER * options.limits.fresh_s
end


--- Read the heads of tables, and the tables for which they do not do: their names, the values by name and the
-- server that had them; and how many of the upstreams were got through. nil and why.
local function read_changed(options, store, names, breathe)
    local heads, server, asked = read(options, wire.head_key, names, breathe)
    if not heads then
        return nil, server
    end
    local wanted, places = {}, {}
    for_each(names, breathe, function(upstream, i)
        if i > asked then
            return
        end
        wanted[#wanted + 1], places[#places + 1] = upstream, i -- also where the head makes this raise
        local head = heads[upstream]
        if head and accept_head(options, store, upstream, head, server, breathe)
           and not is_late(options, store, upstream) then
            wanted[#wanted], places[#places] = nil, nil
        end
    end)
    local tables, table_server, got = read(options, wire.weights_key, wanted, breathe)
    if not tables then
        return nil, table_server
    end
    for i = got + 1, #wanted do
        wanted[i] = nil
    end
    return { names = wanted, tables = tables, server = table_server },
           got < #places and places[got + 1] - 1 or asked
end


--- Read the tables from Memcached; return whether it answered.
local function from_memcached(options, store, breathe)
    local names = names_from(options.names, next_to_read)
    if #names == 0 then
        return true -- none is declared, and none is listed yet
    end
    local changed, through = read_changed(options, store, names, breathe)
    if not changed then
        local err = through
        store:count_fetch_error(err)
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
    for_each(changed.names, breathe, function(upstream)
        local value = changed.tables[upstream]
        if value then
            accept(options, store, upstream, value, { name = "memcached " .. changed.server, outcome = "" }, breathe)
        elseif store:outcome_changed(upstream, "absent") then
            ngx.log(ngx.NOTICE, "steelyard: upstream ", upstream, ": no weight table in Memcached")
        end
    end)
    return true
end


--- Whether to ask the controllers though Memcached answers: nothing new comes from it,
-- or the first table may be a replayed one.
local function is_stale(options, store, upstream)
    return store:is_doubtful(upstream) or is_late(options, store, upstream)
end


local function why_refused(status, token)
    local meaning = MEANINGS[status]
    if status == 401 then
        meaning = token and "the option `controller_token` of init_worker is none of its tokens"
                  or "it wants a token: set the option `controller_token` of init_worker"
    end
    return "answered " .. tostring(status) .. (meaning and " (" .. meaning .. ")" or "")
end


--- GET the table from a controller: the value as Memcached would hold it, with its signature;
-- "" where the controller's table is the one that is `served` (term, generation; or nil).
-- @param token what the controller wants of readers, or nil
local function ask_controller(server, upstream, served, token)
    local answer, err = http_client.get({
        host = server.host, port = server.port,
        path = server.path_prefix .. "/v1/upstreams/" .. upstream .. "/weights",
        timeout_ms = TIMEOUT_MS, max_bytes = wire.MAX_BYTES,
        headers = {
            ["If-None-Match"] = served and string.format('"%.0f.%.0f"', served.term, served.generation),
            ["Authorization"] = token and "Bearer " .. token,
        },
    })
    if not answer then
        return nil, err
    end
    if answer.status == 304 then
        return ""
    end
    if answer.status ~= 200 then
        return nil, why_refused(answer.status, token)
    end
    local signature = answer.headers[SIGNATURE]
    return signature and signed.value(signature, answer.body) or answer.body
end


--- Ask the controllers, in order, until one has a new table of the upstream. One
-- that has nothing new may be a standby or cut off, so the next is asked as well.
local function from_controllers(options, store, upstream, failures, breathe)
    -- A table from disk is to be confirmed, so it is asked for.
    local served = not store:from_disk(upstream) and store:order(upstream) or nil
    for _, server in ipairs(options.controller) do
        local value, err = backoff.attempt("controller " .. server.name, function()
            return ask_controller(server, upstream, served, options.controller_token)
        end)
        if not value then
            failures[server.name] = tostring(err)
        else
            local source = {
                name = "controller " .. server.name, outcome = "/controller", confirms = store:is_doubtful(upstream),
            }
            store:set_doubtful(upstream, false)
            if value ~= "" and accept(options, store, upstream, value, source, breathe) then
                return
            end
        end
    end
end


local function in_words(failures, servers)
    local words = {}
    for _, server in ipairs(servers) do
        if failures[server.name] then
            words[#words + 1] = server.name .. ": " .. failures[server.name]
        end
    end
    return table.concat(words, "; ")
end


local function from_second_source(options, store, answered, breathe)
    local failures, asked, stopped, began = {}, false, false, clock.monotonic()
    local first, names = next_to_ask, options.names
    for_each(names_from(names, first), breathe, function(upstream, i)
        if stopped or answered and not is_stale(options, store, upstream) then
            return
        elseif clock.monotonic() - began > ASK_FOR_S then
            next_to_ask, stopped = (first + i - 2) % #names + 1, true
            return
        end
        asked = true
        from_controllers(options, store, upstream, failures, breathe)
    end)
    if not asked then
        return
    end
    local err = in_words(failures, options.controller)
    if err ~= "" then
        store:count_controller_error(err)
    end
    if store:outcome_changed(CONTROLLER, err == "" and "ok" or "failed") then
        if err == "" then
            ngx.log(ngx.NOTICE, "steelyard: every controller answers")
        else
            ngx.log(ngx.WARN, "steelyard: controllers do not answer (", err, ")")
        end
    end
end


--- Fetch once, for all upstreams; save on disk what changed.
-- @param breathe called every 0.1 ms or so of work; may yield
function _M.run(options, store, breathe)
    local answered = from_memcached(options, store, breathe)
    if #options.controller > 0 then
        from_second_source(options, store, answered, breathe)
    end
    for_each(options.names, breathe, function(upstream)
        saved_tables.keep(options, store, upstream, ngx.now(), breathe)
    end)
end


return _M
