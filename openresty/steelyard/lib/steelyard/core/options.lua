--- The options of init_worker and of its upstreams: checked once at the start, with defaults filled in. Pure.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local retries = require "steelyard.core.retries"
local retry_budget = require "steelyard.core.retry_budget"
local signed = require "steelyard.core.signed"
local sticky = require "steelyard.core.sticky"
local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local DEFAULTS = {
    dict = "steelyard",     -- the lua_shared_dict
    fetch_interval_s = 0.5, -- a new table is served within this and 0.2 s
    report_interval_s = 1,  -- the controller's tick
    hold_s = 60,            -- a restart of the control plane is no reason to move
    drift_s = 300,          -- slow enough to be noticed before it matters
}

local KNOWN = "memcached, controller, controller_token, key, state_dir, lb, upstreams, any_upstream, dict, "
              .. "fetch_interval_s, report_interval_s, hold_s, drift_s, allow"

local KNOWN_OF_UPSTREAM = "bootstrap, picker, hash_key, shards, retries, retry_budget, idempotent_methods, max_conns, "
                          .. "queue, max_fails, fail_timeout_s, eject, check, load_metrics_format, sticky, grpc"

-- A request that lost its server, and another, gets one more chance (nginx's
-- own default is no bound at all, which multiplies an overload).
local RETRIES = 2

-- Of each worker. Whoever waits longer than a second for a server that answers within
-- milliseconds waits for an outage to end.
local QUEUE = { size = 100, timeout_s = 1 }

-- nginx has 1 and 10 s. But a pooled connection that its server has just closed
-- looks like a server that does not answer, and 1 would take it out for that; a
-- dead one has its three within milliseconds.
local MAX_FAILS, FAIL_TIMEOUT_S = 3, 10

-- Envoy's outlier detection, faster: when half of at least 5 tries within a second fail, that is not chance.
local EJECT = { error_rate = 0.5, requests = 5, interval_s = 1, base_s = 5, max_s = 300, share = 0.34 }

-- One or two fetches may get lost without a change of rung.
local FRESH_S, FRESH_FETCHES = 3, 3

-- Shorter ones can be guessed.
local MIN_KEY_BYTES = 16

-- Many servers take no more than 8 kB of headers; tokens have some 50 bytes.
local MAX_TOKEN_BYTES = 1024

local bad, list, number = validate.bad, validate.list, validate.number

local _M = {}


local function seconds(options, name, low, high)
    return number(options, name, name, "a number of seconds", low, high, DEFAULTS[name])
end


local function memcached_servers(options)
    local remedy = 'write it as memcached = {"127.0.0.1:11211"}'
    local servers = {}
    for i, text in ipairs(list(options, "memcached", "memcached", remedy)) do
        local host, port = string.match(tostring(text), "^(.+):(%d+)$")
        if not host then
            bad("memcached", "has " .. tostring(text) .. ", which is no host:port", remedy)
        end
        servers[i] = { host = host, port = tonumber(port), name = text }
    end
    if #servers == 0 then
        bad("memcached", "is empty", remedy)
    end
    return servers
end


local function controllers(options)
    local remedy = 'write it as controller = {"http://10.0.0.5:8081"}'
    local servers = {}
    if options.controller == nil then
        return servers
    end
    for i, url in ipairs(list(options, "controller", "controller", remedy)) do
        local host, port, path = string.match(tostring(url), "^http://([%w.-]+):?(%d*)(/?[%w/._-]*)$")
        if not host then
            host, port, path = string.match(tostring(url), "^http://(%[[%x:.]+%]):?(%d*)(/?[%w/._-]*)$")
        end
        if not host then
            bad("controller", "has " .. tostring(url) .. ", which is no http:// URL", remedy)
        end
        servers[i] = {
            host = host, port = tonumber(port) or 80, name = url,
            path_prefix = string.gsub(path, "/$", ""),
        }
    end
    return servers
end


--- The token that the controllers want of readers. It goes into a header unchanged; no error message shows it.
local function controller_token(options)
    local token = options.controller_token
    if token == nil then
        return nil
    end
    local remedy = 'write it as controller_token = os.getenv("STEELYARD_TOKEN"), with `env STEELYARD_TOKEN;` '
                   .. "in nginx.conf"
    if type(token) ~= "string" or #token > MAX_TOKEN_BYTES or not string.find(token, "^[!-~]+$") then
        bad("controller_token", "must be a string of 1.." .. MAX_TOKEN_BYTES .. " visible ASCII characters", remedy)
    end
    return token
end


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
        peers[i] = {
            id = id, address = ip .. ":" .. port, ip = ip, port = port,
            weight = weight, baseline = weight, state = "up",
        }
    end
    table.sort(peers, function(a, b) return a.id < b.id end)
    return peers
end


local function hash_variable(name, key)
    local variable = hash_key.variable(key)
    if not variable then
        bad(name, "is " .. tostring(key), hash_key.REMEDY)
    end
    return variable
end


--- How many requests may wait in each worker, and for how long, where all servers are at max_conns; or nil.
local function queue(name, given, max_conns)
    if given == nil then
        return nil
    end
    if type(given) ~= "table" then
        bad(name, "must be a table", "write it as queue = { size = 100, timeout_s = 1 }")
    end
    validate.only_known(given, "size, timeout_s", name .. ".")
    if not max_conns then
        bad(name, "is for requests that wait until a server has less than max_conns", "set max_conns, too")
    end
    return {
        size = number(given, "size", name .. ".size", "a whole number", 1, 1000000, QUEUE.size),
        timeout_s = number(given, "timeout_s", name .. ".timeout_s", "a number of seconds", 0.001, 3600,
                           QUEUE.timeout_s),
    }
end


local function eject(name, given)
    if given == false then
        return nil
    end
    if given ~= nil and type(given) ~= "table" then
        bad(name, "must be a table, or false for no ejection", "write it as eject = { error_rate = 0.5 }")
    end
    given = given or {}
    validate.only_known(given, "error_rate, requests, interval_s, base_s, max_s, share", name .. ".")
    local function setting(key, what, low, high)
        return number(given, key, name .. "." .. key, what, low, high, EJECT[key])
    end
    return {
        error_rate = setting("error_rate", "a number", 0.01, 1),
        requests = setting("requests", "a whole number", 1, 1000000),
        interval_s = setting("interval_s", "a number of seconds", 0.1, 3600),
        base_s = setting("base_s", "a number of seconds", 0.1, 3600),
        max_s = setting("max_s", "a number of seconds", 0.1, 86400),
        share = setting("share", "a number", 0, 1),
    }
end


--- The form in which servers are asked for their load (core/orca), or nil.
local function load_metrics_format(name, format)
    if format ~= nil and format ~= "TEXT" and format ~= "JSON" then
        bad(name, "is " .. tostring(format), 'write it as load_metrics_format = "TEXT", or "JSON"')
    end
    return format
end


--- Whether the servers speak gRPC.
local function grpc(where, given)
    if given.grpc ~= nil and type(given.grpc) ~= "boolean" then
        bad(where .. "grpc", "must be true or false", "write it as grpc = true where nginx has grpc_pass")
    end
    if given.grpc and given.load_metrics_format then
        -- It has nginx build the request again, and a call's messages may still be on their way.
        bad(where .. "load_metrics_format", "is set, and grpc = true", "leave it out: gRPC's servers report unasked")
    end
    return given.grpc
end


--- Check the options of an upstream.
-- @param where what stands before their names in an error
local function upstream(where, given)
    validate.only_known(given, KNOWN_OF_UPSTREAM, where)
    if given.picker ~= nil and (type(given.picker) ~= "string" or given.picker == "") then
        bad(where .. "picker", "must be a name", 'write it as picker = "vnswrr2", or leave it to the weight table')
    end
    local key, shards = given.hash_key or "address", given.shards
    if shards ~= nil then
        shards = number(given, "shards", where .. "shards", "a whole number", 1, 1000, 32)
    end
    local max_conns = given.max_conns
    if max_conns ~= nil then
        max_conns = number(given, "max_conns", where .. "max_conns", "a whole number", 1, 1000000, "no limit")
    end
    return {
        bootstrap = bootstrap(where .. "bootstrap", given.bootstrap or {}),
        picker = given.picker,
        hash_key = key, hash_variable = hash_variable(where .. "hash_key", key),
        shards = shards,
        retries = number(given, "retries", where .. "retries", "a whole number", 0, 100, RETRIES),
        retry_budget = retry_budget.of_options(where .. "retry_budget", given.retry_budget),
        idempotent_methods = retries.methods_of_options(where .. "idempotent_methods", given.idempotent_methods),
        max_conns = max_conns, queue = queue(where .. "queue", given.queue, max_conns),
        max_fails = number(given, "max_fails", where .. "max_fails", "a whole number", 0, 1000000, MAX_FAILS),
        fail_timeout_s = number(given, "fail_timeout_s", where .. "fail_timeout_s", "a number of seconds", 0.1, 86400,
                                FAIL_TIMEOUT_S),
        eject = eject(where .. "eject", given.eject),
        check = check_settings.of_options(where .. "check", given.check),
        load_metrics_format = load_metrics_format(where .. "load_metrics_format", given.load_metrics_format),
        grpc = grpc(where, given),
        sticky = sticky.of_options(where .. "sticky", given.sticky),
    }
end


local function names_and_upstreams(options)
    local remedy = 'write it as upstreams = { web = { bootstrap = {"10.0.0.11:80"} } }'
    local upstreams, names = {}, {}
    if options.upstreams == nil and options.any_upstream then
        return names, upstreams
    end
    for name, settings in pairs(list(options, "upstreams", "upstreams", remedy)) do
        if not wire.is_name(name) then
            bad("upstreams", "has " .. tostring(name) .. ", which is no name", remedy)
        end
        if type(settings) ~= "table" then
            bad("upstreams." .. name, "must be a table", remedy)
        end
        upstreams[name] = upstream("upstreams." .. name .. ".", settings)
        names[#names + 1] = name
    end
    if #names == 0 then
        bad("upstreams", "is empty", remedy)
    end
    table.sort(names)
    return names, upstreams
end


--- The settings of all upstreams that the controller's list has beside those of nginx.conf; nil: none is served.
local function any_upstream(given)
    if given == nil then
        return nil
    end
    if type(given) ~= "table" then
        bad("any_upstream", "must be a table", "write it as any_upstream = {}, or with the options of an upstream")
    end
    for _, name in ipairs({ "bootstrap", "shards" }) do
        if given[name] ~= nil then
            bad("any_upstream." .. name, "is set, and it is of one upstream", "leave it out, or name that upstream in "
                .. "the option `upstreams`")
        end
    end
    return upstream("any_upstream.", given)
end


local function allowed(options)
    local blocks = options.allow or {}
    for _, block in ipairs(type(blocks) == "table" and blocks or { blocks }) do
        if type(blocks) ~= "table" or type(block) ~= "string" or not address.network(block) then
            bad("allow", "has " .. tostring(block), 'write it as allow = {"10.0.0.0/8", "::1"}')
        end
    end
    return blocks
end


--- Check the options and fill in the defaults; raises with option and remedy.
function _M.check(options)
    if type(options) ~= "table" then
        error("steelyard.init_worker: needs a table of options: " .. KNOWN, 0)
    end
    validate.only_known(options, KNOWN, "")
    if not wire.is_name(options.lb) then
        bad("lb", "must name this load balancer", 'write it as lb = "edge-1", and differently on each machine')
    end
    if options.key ~= nil and (type(options.key) ~= "string" or #options.key < MIN_KEY_BYTES) then
        bad("key", "must be a string of at least " .. MIN_KEY_BYTES .. " bytes",
            'write it as key = os.getenv("STEELYARD_KEY"), with `env STEELYARD_KEY;` in nginx.conf')
    end
    if options.key and string.find(options.key, "^lb%.") and not signed.load_balancer_keys(options.key) then
        bad("key", "begins as a load balancer's key does, and is not whole",
            "write it as `steelyard keys lb NAME` prints it")
    end
    if options.state_dir ~= nil and (type(options.state_dir) ~= "string"
                                     or not string.find(options.state_dir, "^/")) then
        bad("state_dir", "must be an absolute path", 'write it as state_dir = "/var/lib/steelyard"')
    end
    local names, upstreams = names_and_upstreams(options)
    local fetch_interval_s = seconds(options, "fetch_interval_s", 0.05, 60)
    return {
        memcached = memcached_servers(options), controller = controllers(options),
        controller_token = controller_token(options),
        key = options.key, state_dir = options.state_dir, lb = options.lb,
        -- What is served now; with any_upstream more than what nginx.conf declares.
        upstreams = upstreams, names = names, declared = upstreams, any_upstream = any_upstream(options.any_upstream),
        allow = allowed(options),
        dict = options.dict or DEFAULTS.dict,
        fetch_interval_s = fetch_interval_s,
        report_interval_s = seconds(options, "report_interval_s", 0.1, 60),
        limits = {
            fresh_s = math.max(FRESH_S, FRESH_FETCHES * fetch_interval_s),
            hold_s = seconds(options, "hold_s", 0, 86400),
            drift_s = seconds(options, "drift_s", 1, 86400),
        },
    }
end


return _M
