--- The options of one upstream, checked and with their defaults. Pure.

local address = require "steelyard.core.address"
local check_settings = require "steelyard.core.check_settings"
local hash_key = require "steelyard.core.hash_key"
local option = require "steelyard.core.option"

local KNOWN = "bootstrap, picker, hash_key, shards, retries, max_fails, fail_timeout_s, eject, check"

-- A request that lost its server, and another, gets one more chance (nginx's
-- own default is no bound at all, which multiplies an overload).
local RETRIES = 2

-- nginx has 1 and 10 s. But a pooled connection that its server has just closed
-- looks like a server that does not answer, and 1 would take it out for that; a
-- dead one has its three within milliseconds.
local MAX_FAILS, FAIL_TIMEOUT_S = 3, 10

-- Envoy's idea, faster: half of at least 5 tries within a second is no bad luck.
local EJECT = { error_rate = 0.5, requests = 5, interval_s = 1, base_s = 5, max_s = 300, share = 0.34 }

local bad, number = option.bad, option.number

local _M = {}


local function bootstrap(name, servers)
    local remedy = 'write it as bootstrap = {"10.0.0.11:80"}, '
                   .. 'or {{ id = "server-1", address = "10.0.0.11:80", weight = 2 }}'
    if type(servers) ~= "table" then
        bad(name, "must be a list", remedy)
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
            id = id, address = text, ip = ip, port = port,
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


local function eject(name, given)
    if given == false then
        return nil
    end
    if given ~= nil and type(given) ~= "table" then
        bad(name, "must be a table, or false for no ejection", "write it as eject = { error_rate = 0.5 }")
    end
    given = given or {}
    option.only_known(given, "error_rate, requests, interval_s, base_s, max_s, share", name .. ".")
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


--- Check the options of the upstream `name`.
function _M.check(name, given)
    local where = "upstreams." .. name .. "."
    option.only_known(given, KNOWN, where)
    if given.picker ~= nil and (type(given.picker) ~= "string" or given.picker == "") then
        bad(where .. "picker", "must be a name", 'write it as picker = "vnswrr2", or leave it to the weight table')
    end
    local key, shards = given.hash_key or "address", given.shards
    if shards ~= nil then
        shards = number(given, "shards", where .. "shards", "a whole number", 1, 1000, 32)
    end
    return {
        bootstrap = bootstrap(where .. "bootstrap", given.bootstrap or {}),
        picker = given.picker,
        hash_key = key, hash_variable = hash_variable(where .. "hash_key", key),
        shards = shards,
        retries = number(given, "retries", where .. "retries", "a whole number", 0, 100, RETRIES),
        max_fails = number(given, "max_fails", where .. "max_fails", "a whole number", 0, 1000000, MAX_FAILS),
        fail_timeout_s = number(given, "fail_timeout_s", where .. "fail_timeout_s", "a number of seconds", 0.1, 86400,
                                FAIL_TIMEOUT_S),
        eject = eject(where .. "eject", given.eject),
        check = check_settings.of_options(where .. "check", given.check),
    }
end


return _M
