--- The second source of weight tables: the controllers' API, asked when Memcached brings nothing new.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local http_client = require "steelyard.io.http_client"
local signed = require "steelyard.core.signed"
local table_sources = require "steelyard.io.table_sources"
local wire = require "steelyard.core.wire"

local CONTROLLER = "!controller" -- no upstream can have this name

-- The controller answers from memory; a megabyte takes about 10 ms.
local TIMEOUT_MS = 500

-- A walk over all upstreams asks controllers for this long; the next walk goes on where it stopped. So Memcached is
-- asked as often as ever, even with many upstreams or a slow controller.
local ASK_FOR_S = 1

local SIGNATURE = "steelyard-signature"

-- The meanings of statuses other than 200 and 304.
local MEANINGS = {
    [403] = "the option `controller_token` of init_worker is a token that may not read",
    [404] = "it has no such upstream",
    [503] = "it has no table yet, or no leader",
}

-- The answer of a controller that does not have the upstream, in place of a table.
local UNKNOWN = "unknown"

local _M = {}

-- The index of the name at which this worker begins its next walk: the last walk stopped there.
local next_to_ask = 1


local function why_refused(status, token)
    local meaning = MEANINGS[status]
    if status == 401 and token then
        meaning = "the option `controller_token` of init_worker is none of its tokens"
    elseif status == 401 then
        meaning = "it wants a token: set the option `controller_token` of init_worker"
    end
    return "answered " .. tostring(status) .. (meaning and " (" .. meaning .. ")" or "")
end


--- GET the table from a controller: the value as Memcached would hold it, with its signature. "" if the controller's
-- table is the one that is `served` (term, generation; or nil). UNKNOWN if it does not have the upstream.
-- @param token the token for reading, or nil
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
    if answer.status == 404 then
        return UNKNOWN
    end
    if answer.status ~= 200 then
        return nil, why_refused(answer.status, token)
    end
    local signature = answer.headers[SIGNATURE]
    return signature and signed.value(signature, answer.body) or answer.body
end


--- Ask the controllers, in order, until one has a new table of the upstream. A controller without a new table may be
-- a standby, or cut off, so the next one is asked as well. Controllers of several installations have different
-- upstreams: that an upstream is unknown at some is a failure only if no controller has it.
local function from_controllers(options, store, upstream, failures, breathe)
    -- A controller has to confirm a table from disk, so it is requested without If-None-Match.
    local served = not store:from_disk(upstream) and store:term_and_generation(upstream) or nil
    local is_known, unknown_at = false, {}
    for _, server in ipairs(options.controller) do
        local value, err = backoff.attempt("controller " .. server.name, function()
            return ask_controller(server, upstream, served, options.controller_token)
        end)
        if not value then
            failures[server.name] = tostring(err)
        elseif value == UNKNOWN then
            unknown_at[#unknown_at + 1] = server.name
        else
            is_known = true
            local source = {
                name = "controller " .. server.name, outcome = "/controller", confirms = store:is(upstream, "doubtful"),
            }
            store:mark(upstream, "doubtful", false)
            if value ~= "" and table_sources.accept(options, store, upstream, value, source, breathe) then
                return
            end
        end
    end
    for i = 1, is_known and 0 or #unknown_at do
        failures[unknown_at[i]] = why_refused(404)
    end
end


--- The failures in the order of the servers; "" if there is none.
local function listed(failures, servers)
    local lines = {}
    for _, server in ipairs(servers) do
        if failures[server.name] then
            lines[#lines + 1] = server.name .. ": " .. failures[server.name]
        end
    end
    return table.concat(lines, "; ")
end


--- Ask the controllers for the tables that Memcached does not renew, and log whether they answer.
-- @param answered whether Memcached answers
function _M.run(options, store, answered, breathe)
    local failures, asked, stopped, began = {}, false, false, clock.monotonic()
    local first, names = next_to_ask, options.names
    table_sources.for_each(table_sources.names_from(names, first), breathe, function(upstream, i)
        -- Even if Memcached answers: its table may be late, or the first table of all may be a recording.
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
    local err = listed(failures, options.controller)
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
