--- The options of one upstream: checked once at the start, with defaults filled in. Pure.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local retries = require "steelyard.core.retries"
local retry_budget = require "steelyard.core.retry_budget"
local sticky = require "steelyard.core.sticky"
local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local KNOWN = "bootstrap, picker, hash_key, hash_balance_factor, remember_keys, shards, retries, retry_budget, "
              .. "idempotent_methods, max_conns, queue, priority, full_status, failure_statuses, max_fails, "
              .. "fail_timeout_s, slow_start_s, panic_threshold, subset_size, eject, explain, check, "
              .. "load_metrics_format, sticky, grpc, host, cost, cost_at_end, connect_timeout_s, "
              .. "send_timeout_s, read_timeout_s, session_grace_s, session_spread_s, session_max_age_s"

local bad, optional, right = validate.bad, validate.optional, validate.right
local NUMBER, SECONDS, WHOLE = validate.NUMBER, validate.SECONDS, validate.WHOLE

local NUMBERS = {
    -- A request that lost its server, and another, gets one more chance (nginx's
    -- own default is no bound at all, which multiplies an overload).
    { "retries", WHOLE, 0, 100, 2 },
    -- nginx has 1 and 10 s. But a pooled connection that its server has just closed
    -- looks like a server that does not answer, and 1 would take it out for that; a
    -- dead one has its three within milliseconds.
    { "max_fails", WHOLE, 0, 1000000, 3 },
    { "fail_timeout_s", SECONDS, 0.1, 86400, 10 },
    { "slow_start_s", SECONDS, 0, 86400, 0 },
    { "panic_threshold", NUMBER, 0, 1, 0 },
    { "full_status", WHOLE, 400, 599, 503 },
    { "session_spread_s", SECONDS, 0, 86400, 10 }, -- ten thousand clients that come back at once are an outage
}

-- Of each worker. Whoever waits longer than a second for a server that answers within
-- milliseconds waits for an outage to end.
local QUEUE = { { "size", WHOLE, 1, 1000000, 100 }, { "timeout_s", SECONDS, 0.001, 3600, 1 } }

-- Envoy's outlier detection, faster: when half of at least 5 tries within a second fail, that is not chance.
local EJECT = {
    { "error_rate", NUMBER, 0.01, 1, 0.5 },
    { "requests", WHOLE, 1, 1000000, 5 },
    { "interval_s", SECONDS, 0.1, 3600, 1 },
    { "base_s", SECONDS, 0.1, 3600, 5 },
    { "max_s", SECONDS, 0.1, 86400, 300 },
    { "share", NUMBER, 0, 1, 0.34 },
}

local _M = {}


local function bootstrap(name, servers)
    local remedy = 'write it as bootstrap = {"10.0.0.11:80"}, '
                   .. 'or {{ id = "server-1", address = "10.0.0.11:80", weight = 2 }}'
    if type(servers) ~= "table" then
        bad(name, "must be a list", remedy)
    end
    for key in pairs(servers) do
        if type(key) ~= "number" or not servers[key - 1] and key ~= 1 then
            bad(name, "must be a list, and has the key " .. tostring(key), remedy)
        end
    end
    local peers, known = {}, {}
    for i, server in ipairs(servers) do
        local row = type(server) == "table" and server or { address = server }
        local text, weight = tostring(row.address), row.weight or 1
        local ip, port = address.split(text)
        if not ip then
            bad(name, "is wrong: " .. port, remedy)
        end
        if type(weight) ~= "number" or weight < 1 or weight > 1000000 or weight ~= math.floor(weight) then
            bad(name, "has the weight " .. tostring(weight), "a weight is a whole number within 1..1000000")
        end
        local id = row.id or text
        if type(id) ~= "string" or known[id] then
            bad(name, "has the id " .. tostring(id), "an id is a string, and of one server only")
        end
        known[id] = true
        local where = name .. ": " .. id .. ": "
        peers[i] = {
            id = id, address = ip .. ":" .. port, ip = ip, port = port,
            weight = weight, baseline = weight, state = "up",
            max_conns = optional(where, row, "max_conns", WHOLE, 1, 1000000, "the upstream's"),
        }
    end
    table.sort(peers, function(a, b) return a.id < b.id end)
    return peers
end


--- A picker's name, or a module of nginx.conf's own (core/pickers).
local function is_picker(given)
    local is_module = type(given) == "table" and wire.is_name(given.name) and type(given.new) == "function"
    return is_module or type(given) == "string" and given ~= ""
end


--- What a hash picker hashes: one of nginx's variables, by its name, or a function. Only nginx.conf can name the
-- latter, and the body: load balancers that know neither would refuse a table that does.
local function hash_variable(name, key)
    local variable = type(key) == "function" and key or key == "body" and "request_body" or hash_key.variable(key)
    if not variable then
        bad(name, "is " .. tostring(key), hash_key.REMEDY .. "; or body, or a function")
    end
    return variable
end


--- How many requests may wait in each worker, and for how long, where all servers are at max_conns; or nil.
local function queue(name, given, max_conns, servers)
    if given == nil then
        return nil
    end
    local is_limited = max_conns or #servers > 0
    for i = 1, #servers do
        is_limited = max_conns or is_limited and servers[i].max_conns -- one without has room for ever
    end
    local numbers = validate.table_of_numbers(given, QUEUE, name, "must be a table",
                                              "write it as queue = { size = 100, timeout_s = 1 }")
    if not is_limited then
        bad(name, "is for requests that wait until a server has less than max_conns",
            "set max_conns, too, or that of each server in bootstrap")
    end
    return numbers
end


local function eject(name, given)
    if given == false then
        return nil
    end
    return validate.table_of_numbers(given == nil and {} or given, EJECT, name,
                                     "must be a table, or false for no ejection",
                                     "write it as eject = { error_rate = 0.5 }")
end


--- A form in which servers can be asked for their load (core/orca).
local function is_format(given)
    return given == "TEXT" or given == "JSON"
end


--- Whether the servers speak gRPC.
local function grpc(where, given)
    right(where, given, "grpc", "boolean", "must be true or false", "write it as grpc = true where nginx has grpc_pass")
    if given.grpc and given.load_metrics_format then
        -- It has nginx build the request again, and a call's messages may still be on their way.
        bad(where .. "load_metrics_format", "is set, and grpc = true", "leave it out: gRPC's servers report unasked")
    end
    return given.grpc
end


--- How a request's cost, or priority, is told: one of nginx's variables, by its name, or a function; or nil.
local function told(name, given)
    if given == nil or type(given) == "function" then
        return given
    end
    local variable = type(given) == "string" and string.match(given, "^%$?([%w_]+)$")
    if not variable then
        bad(name, "is neither a variable of nginx's nor a function", 'write it as "http_x_name"')
    end
    return variable
end


--- The set of further statuses that count as failures, or nil.
local function failure_statuses(name, given)
    local set = {}
    for _, status in ipairs(check_settings.statuses(name, given) or {}) do
        set[status] = true
    end
    return next(set) and set
end


--- The upstream's own time-outs, each nil where nginx.conf's holds; nil where all do.
local function timeouts(where, given)
    local function timeout(name)
        return optional(where, given, name, SECONDS, 0.001, 86400, "what nginx.conf says")
    end
    local values = {
        connect_s = timeout("connect_timeout_s"), send_s = timeout("send_timeout_s"),
        read_s = timeout("read_timeout_s"),
    }
    return next(values) and values or nil
end


--- Check the options and fill in the defaults; raises with option and remedy.
-- @param where what stands before their names in an error
function _M.check(where, given)
    validate.only_known(given, KNOWN, where)
    local settings, key = validate.numbers(given, NUMBERS, where), given.hash_key or "address"
    local max_conns = optional(where, given, "max_conns", WHOLE, 1, 1000000, "no limit")
    settings.bootstrap = bootstrap(where .. "bootstrap", given.bootstrap or {})
    -- Left out: the weight table's.
    settings.picker = right(where, given, "picker", is_picker, "must be a name", 'write it as picker = "vnswrr2", '
                            .. "or leave it to the weight table; one of your own is a table with name and new")
    settings.hash_variable = hash_variable(where .. "hash_key", key)
    settings.hash_key = type(key) == "function" and "function" or key
    settings.hash_balance_factor = optional(where, given, "hash_balance_factor", NUMBER, 1, 1000, 1.25)
    settings.remember_keys = right(where, given, "remember_keys", "string", "must name a lua_shared_dict",
                                   'write it as remember_keys = "steelyard_keys"')
    settings.shards = optional(where, given, "shards", WHOLE, 1, 1000, 32)
    settings.retry_budget = retry_budget.of_options(where .. "retry_budget", given.retry_budget)
    settings.idempotent_methods = retries.methods_of_options(where .. "idempotent_methods", given.idempotent_methods)
    settings.max_conns = max_conns
    settings.queue = queue(where .. "queue", given.queue, max_conns, settings.bootstrap)
    -- Who found all servers full may come again when those who may wait now have had their turn.
    settings.retry_after_s = math.ceil(settings.queue and settings.queue.timeout_s or 1)
    settings.eject = eject(where .. "eject", given.eject)
    settings.timeouts = timeouts(where, given)
    settings.host = right(where, given, "host", check_settings.is_server_name,
                          "is no name that a certificate can be for",
                          'write it as host = "web.internal", without a port')
    settings.check = check_settings.of_options(where .. "check", given.check, given.host)
    settings.load_metrics_format = right(where, given, "load_metrics_format", is_format, "is %s",
                                         'write it as load_metrics_format = "TEXT", or "JSON"')
    settings.grpc = grpc(where, given)
    settings.explain = right(where, given, "explain", "boolean", "must be true or false",
                             "write it as explain = true to have $steelyard_why")
    settings.failure_statuses = failure_statuses(where .. "failure_statuses", given.failure_statuses)
    for _, option in ipairs({ "cost", "cost_at_end", "priority" }) do
        settings[option] = told(where .. option, given[option])
    end
    settings.sticky = sticky.of_options(where .. "sticky", given.sticky)
    settings.subset_size = optional(where, given, "subset_size", WHOLE, 1, 1000000, "all servers")
    if settings.subset_size and settings.sticky then
        bad(where .. "subset_size", "is set, and sticky", "leave one out: a session's server is not in every subset")
    end
    -- A request that is done within a second is no session.
    settings.session_grace_s = optional(where, given, "session_grace_s", SECONDS, 1, 86400, "sessions that stay")
    settings.session_max_age_s = optional(where, given, "session_max_age_s", SECONDS, 1, 31536000, "no limit")
    settings.closes_sessions = (settings.session_grace_s or settings.session_max_age_s) ~= nil
    if given.session_spread_s ~= nil and not settings.session_grace_s then
        bad(where .. "session_spread_s", "is for sessions that are closed", "set session_grace_s, too")
    end
    return settings
end


return _M
