--- The options of one upstream: checked once at the start, with defaults filled in. Pure.
--
-- OPTIONS names each of them once. core/validate says what a row consists of.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local retries = require "steelyard.core.retries"
local retry_budget = require "steelyard.core.retry_budget"
local sticky = require "steelyard.core.sticky"
local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local bad, within, matching = validate.bad, validate.within, validate.matching
local NUMBER, SECONDS, WHOLE = validate.NUMBER, validate.SECONDS, validate.WHOLE

-- Per worker. A request that waits longer than a second for a server that answers within milliseconds waits for an
-- outage to end.
local QUEUE = { { "size", WHOLE, 1, 1000000, 100 }, { "timeout_s", SECONDS, 0.001, 3600, 1 } }

-- Envoy's outlier detection, faster: half of at least 5 tries within a second do not fail by chance.
local EJECT = {
    { "error_rate", NUMBER, 0.01, 1, 0.5 },
    { "requests", WHOLE, 1, 1000000, 5 },
    { "consecutive", WHOLE, 0, 1000000, 5 },
    { "interval_s", SECONDS, 0.1, 3600, 1 },
    { "base_s", SECONDS, 0.1, 3600, 5 },
    { "max_s", SECONDS, 0.1, 86400, 300 },
    { "share", NUMBER, 0, 1, 0.34 },
}

local BOOTSTRAP_REMEDY = 'write it as bootstrap = {"10.0.0.11:80"}, '
                         .. 'or {{ id = "server-1", address = "10.0.0.11:80", weight = 2 }}'


--- One server of the bootstrap list as a peer.
-- @param server its address, or a row { address, id, weight, max_conns }
-- @param option the list's full name
local function bootstrap_peer(server, option)
    local row = type(server) == "table" and server or { address = server }
    local text, weight = tostring(row.address), row.weight or 1
    local ip, port = address.split(text)
    if not ip then
        bad(option, "is wrong: " .. port, BOOTSTRAP_REMEDY)
    end
    if type(weight) ~= "number" or weight < 1 or weight > 1000000 or weight ~= math.floor(weight) then
        bad(option, "has the weight " .. tostring(weight), "a weight is a whole number within 1..1000000")
    end
    local id = row.id or text
    if type(id) ~= "string" then
        bad(option, "has the id " .. tostring(id), "an id is a string")
    end
    return {
        id = id, address = ip .. ":" .. port, ip = ip, port = port,
        weight = weight, baseline = weight, state = "up",
        max_conns = validate.optional(option .. ": " .. id .. ": ", row, "max_conns", WHOLE, 1, 1000000,
                                      "the upstream's"),
    }
end


local function bootstrap(servers, option)
    if type(servers) ~= "table" then
        bad(option, "must be a list", BOOTSTRAP_REMEDY)
    end
    for key in pairs(servers) do
        if type(key) ~= "number" or not servers[key - 1] and key ~= 1 then
            bad(option, "must be a list, and has the key " .. tostring(key), BOOTSTRAP_REMEDY)
        end
    end
    local peers, ids = {}, {}
    for i, server in ipairs(servers) do
        local peer = bootstrap_peer(server, option)
        if ids[peer.id] then
            bad(option, "has the id " .. peer.id .. " twice", "give each server an id of its own")
        end
        ids[peer.id] = true
        peers[i] = peer
    end
    table.sort(peers, function(a, b) return a.id < b.id end)
    return peers
end


--- A picker's name, or a module from nginx.conf (core/pickers).
local function is_picker(given)
    local is_module = type(given) == "table" and wire.is_name(given.name) and type(given.new) == "function"
    return is_module or type(given) == "string" and given ~= ""
end


--- Return the variable for a hash picker's key, by its name, or a function; nil if the key is neither. Only nginx.conf
-- can name a function or the body: load balancers unaware of them would refuse such a table.
local function hash_variable(key)
    if type(key) == "function" then
        return key
    end
    return key == "body" and "request_body" or hash_key.variable(key)
end


local function checked_hash_key(key, option)
    if not hash_variable(key) then
        bad(option, "is " .. tostring(key), hash_key.REMEDY .. "; or body, or a function")
    end
    return key
end


--- Whether every server has a limit, so that all of them can be full. A server without one has room for ever.
local function can_be_full(settings)
    if settings.max_conns then
        return true
    end
    local servers = settings.bootstrap
    for i = 1, #servers do
        if not servers[i].max_conns then
            return false
        end
    end
    return #servers > 0
end


local function queue(given, option, _, settings)
    local numbers = validate.table_of_numbers(given, QUEUE, option, "must be a table",
                                              "write it as queue = { size = 100, timeout_s = 1 }")
    if not can_be_full(settings) then
        bad(option, "is for requests that wait until a server has less than max_conns",
            "set max_conns, too, or that of each server in bootstrap")
    end
    return numbers
end


local function eject(given, option)
    if given == false then
        return nil
    end
    return validate.table_of_numbers(given, EJECT, option, "must be a table, or false for no ejection",
                                     "write it as eject = { error_rate = 0.5 }")
end


--- A form in which servers can be asked for their load (core/orca).
local function is_load_format(given)
    return given == "TEXT" or given == "JSON"
end


--- The name of an nginx variable, without its $; or a function.
local function variable_or_function(given, option)
    if type(given) == "function" then
        return given
    end
    local variable = type(given) == "string" and string.match(given, "^%$?([%w_]+)$")
    if not variable then
        bad(option, "is neither an nginx variable nor a function", 'write it as "http_x_name"')
    end
    return variable
end


--- The set of further statuses that count as failures.
local function failure_statuses(given, option)
    local set = {}
    for _, status in ipairs(check_settings.statuses(option, given)) do
        set[status] = true
    end
    return set
end


-- Rows are checked in this order: a check may look at the settings that are above it.
local OPTIONS = {
    { name = "bootstrap", default = {}, check = bootstrap, taken_by = "phase/upstream_sync",
      single_upstream = true, stream = true },
    { name = "picker", unset = "the weight table's",
      check = matching(is_picker, "must be a name", 'write it as picker = "vnswrr2", or leave it to the weight table; '
                       .. "one of your own is a table with name and new"),
      taken_by = "core/upstream", stream = true },
    { name = "hash_key", default = "address", check = checked_hash_key,
      read_as = "hash_variable", taken_by = "core/upstream", stream = true },
    { name = "hash_balance_factor", unset = 1.25, check = within(NUMBER, 1, 1000),
      taken_by = "core/upstream", stream = true },
    { name = "remember_keys", unset = "no memory",
      check = matching("string", "must name a lua_shared_dict", 'write it as remember_keys = "steelyard_keys"'),
      taken_by = "core/upstream" },
    { name = "shards", unset = 32, check = within(WHOLE, 1, 1000), taken_by = "phase/worker", single_upstream = true },
    -- A request that lost two servers gets one more chance. nginx's own default has no bound, which multiplies an
    -- overload.
    { name = "retries", default = 2, check = within(WHOLE, 0, 100), taken_by = "core/upstream", stream = true },
    { name = "retry_budget", default = {}, check = retry_budget.of_option, taken_by = "core/upstream" },
    { name = "idempotent_methods", unset = "IANA's idempotent methods", check = retries.methods_of_option,
      taken_by = "phase/retries" },
    { name = "max_conns", unset = "no limit", check = within(WHOLE, 1, 1000000), taken_by = "core/upstream" },
    { name = "queue", unset = "no queue", check = queue, taken_by = "phase/limit" },
    { name = "priority", unset = "one class", check = variable_or_function, taken_by = "phase/limit" },
    { name = "full_status", default = 503, check = within(WHOLE, 400, 599), taken_by = "phase/limit" },
    { name = "failure_statuses", unset = "5xx alone", check = failure_statuses, taken_by = "core/own_failures" },
    -- nginx has 1 and 10 s. But a pooled connection that its server has just closed looks like a server that does not
    -- answer, and with 1 it would take the server out. A dead server fails three times within milliseconds.
    { name = "max_fails", default = 3, check = within(WHOLE, 0, 1000000), taken_by = "io/peer_health", stream = true },
    { name = "fail_timeout_s", default = 10, check = within(SECONDS, 0.1, 86400), taken_by = "io/peer_health",
      stream = true },
    { name = "slow_start_s", default = 0, check = within(SECONDS, 0, 86400), taken_by = "core/upstream",
      stream = true },
    { name = "panic_threshold", default = 0, check = within(NUMBER, 0, 1), taken_by = "core/upstream", stream = true },
    { name = "eject", default = {}, check = eject, taken_by = "io/ejection", stream = true },
    { name = "host", unset = "the upstream's name",
      check = matching(check_settings.is_server_name, "is no name that a certificate can be for",
                       'write it as host = "web.internal", without a port'),
      taken_by = "phase/balance", single_upstream = true },
    { name = "check", unset = "the weight table's",
      check = function(given, option, _, settings)
          return check_settings.of_options(option, given, settings.host)
      end,
      taken_by = "core/upstream", stream = true },
    { name = "load_metrics_format", unset = "servers are not asked",
      check = matching(is_load_format, "is %s", 'write it as load_metrics_format = "TEXT", or "JSON"'),
      taken_by = "phase/balance" },
    { name = "grpc", default = false,
      check = matching("boolean", "must be true or false", "write it as grpc = true where nginx has grpc_pass"),
      taken_by = "phase/server_reports" },
    { name = "explain", default = false,
      check = matching("boolean", "must be true or false", "write it as explain = true to have $steelyard_why"),
      taken_by = "core/upstream" },
    { name = "cost", unset = "all requests weigh the same", check = variable_or_function, taken_by = "phase/request" },
    { name = "cost_at_end", unset = "the cost that is known at the start", check = variable_or_function,
      taken_by = "phase/request" },
    { name = "sticky", unset = "no sessions", check = sticky.of_option, taken_by = "core/upstream" },
    { name = "subset_size", unset = "all servers", check = within(WHOLE, 1, 1000000), taken_by = "core/upstream" },
    { name = "connect_timeout_s", unset = "what nginx.conf says", check = within(SECONDS, 0.001, 86400),
      read_as = "timeouts.connect_s", taken_by = "phase/balance", stream = true },
    { name = "send_timeout_s", unset = "what nginx.conf says", check = within(SECONDS, 0.001, 86400),
      read_as = "timeouts.send_s", taken_by = "phase/balance" },
    { name = "read_timeout_s", unset = "what nginx.conf says", check = within(SECONDS, 0.001, 86400),
      read_as = "timeouts.read_s", taken_by = "phase/balance" },
    -- A request that is done within a second is no session.
    { name = "session_grace_s", unset = "sessions that stay", check = within(SECONDS, 1, 86400),
      taken_by = "core/long_sessions", stream = true },
    -- Ten thousand clients that come back at once are an outage.
    { name = "session_spread_s", default = 10, check = within(SECONDS, 0, 86400), taken_by = "core/long_sessions",
      stream = true },
    { name = "session_max_age_s", unset = "no limit", check = within(SECONDS, 1, 31536000),
      taken_by = "core/long_sessions", stream = true },
}

local _M = {
    OPTIONS = OPTIONS,
    -- Settings derived from options.
    DERIVED = { "hash_variable", "retry_after_s", "timeouts", "closes_sessions" },
    -- The names of the options that stream {} has, too; for core/validate's only_known().
    STREAM_NAMES = validate.names(OPTIONS, function(row) return row.stream end),
}


--- Refuse options that are right one by one, but not together.
local function refuse_conflicts(where, given, settings)
    if settings.grpc and settings.load_metrics_format then
        -- It has nginx build the request again, and a call's messages may still be on their way.
        bad(where .. "load_metrics_format", "is set, and grpc = true", "leave it out: gRPC's servers report unasked")
    end
    if settings.subset_size and settings.sticky then
        bad(where .. "subset_size", "is set, and sticky", "leave one out: a session's server is not in every subset")
    end
    if given.session_spread_s ~= nil and not settings.session_grace_s then
        bad(where .. "session_spread_s", "is for sessions that are closed", "set session_grace_s, too")
    end
end


--- Return the upstream's own time-outs, each nil if nginx.conf's is in force; nil if all are.
local function timeouts_of(settings)
    local timeouts = {
        connect_s = settings.connect_timeout_s, send_s = settings.send_timeout_s, read_s = settings.read_timeout_s,
    }
    return next(timeouts) and timeouts or nil
end


--- Check the options and fill in the defaults; raises with option and remedy.
-- @param where what is before their names in an error: "upstreams.web."
function _M.check(where, given)
    local settings = validate.options(OPTIONS, given, where)
    refuse_conflicts(where, given, settings)
    settings.hash_variable = hash_variable(settings.hash_key)
    if type(settings.hash_key) == "function" then
        settings.hash_key = "function" -- for the pages
    end
    -- A client that found all servers full may come again when the requests that wait now have had their turn.
    settings.retry_after_s = math.ceil(settings.queue and settings.queue.timeout_s or 1)
    settings.timeouts = timeouts_of(settings)
    settings.closes_sessions = (settings.session_grace_s or settings.session_max_age_s) ~= nil
    return settings
end


--- Check the options of every upstream that the controller lists: those that only one upstream can have are refused.
function _M.check_for_any(where, given)
    for _, row in ipairs(OPTIONS) do
        if row.single_upstream and given[row.name] ~= nil then
            bad(where .. row.name, "is set, and it is of one upstream",
                "leave it out, or name that upstream in the option `upstreams`")
        end
    end
    return _M.check(where, given)
end


return _M
