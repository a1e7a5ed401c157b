--- The second source of weight tables: the controllers' API, asked where Memcached brings nothing new.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local http_client = require "steelyard.io.http_client"
local signed = require "steelyard.core.signed"
local table_sources = require "steelyard.io.table_sources"
local wire = require "steelyard.core.wire"

local CONTROLLER = "!controller" -- no upstream can have this name

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

-- Of the names, in this worker: where the next walk begins, because the last one got no further.
local next_to_ask = 1


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
        timeout_ms = TIMEOUT_MS, max_bytes = wire.MAX_TABLE_BYTES,
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
                name = "controller " .. server.name, outcome = "/controller", confirms = store:is(upstream, "doubtful"),
            }
            store:mark(upstream, "doubtful", false)
            if value ~= "" and table_sources.accept(options, store, upstream, value, source, breathe) then
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


--- Ask the controllers for the tables of which nothing new comes from Memcached, and say whether they answer.
-- @param answered whether Memcached does
function _M.run(options, store, answered, breathe)
    local failures, asked, stopped, began = {}, false, false, clock.monotonic()
    local first, names = next_to_ask, options.names
    table_sources.for_each(table_sources.names_from(names, first), breathe, function(upstream, i)
        -- Though Memcached answers they are asked where nothing new comes from it, or the first table may be replayed.
        local stale = not answered or store:is(upstream, "doubtful") or table_sources.is_late(options, store, upstream)
        if stopped or not stale then
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
        store:count_error("controller", err)
    end
    if store:outcome_changed(CONTROLLER, err == "" and "ok" or "failed") then
        if err == "" then
            ngx.log(ngx.NOTICE, "steelyard: every controller answers")
        else
            ngx.log(ngx.WARN, "steelyard: controllers do not answer (", err, ")")
        end
    end
end


return _M
