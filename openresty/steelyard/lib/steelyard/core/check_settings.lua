--- The settings of active health checks: what to ask, and which answers are good. Pure.
--
-- They come from nginx.conf or from a weight table. The bounds stand here
-- once for both; the controller's are the same
-- (protocol/steelyard_protocol/weight_table.py). In nginx.conf a mistake is
-- the caller's, and raises; in a weight table it makes the table refused.
--
--   about        what is asked, and which answers are good: what was found out by a
--                check holds for as long as this is the same
--   id           all of it
--   words        what is asked, for a person
--   server_name  for TLS: what SNI says, and what the certificate has to be for

local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local KNOWN = "path, statuses, interval_s, timeout_s, rise, fall, host, tls, tls_server_name, tls_verify, "
              .. "grpc_service, tcp"

local MAX_HOST = 253

-- Good unless the settings say otherwise: RFC 9110's successes and redirects.
local FIRST_GOOD, LAST_GOOD = 200, 399

local NUMBERS = {
    { "interval_s", validate.SECONDS, 0.1, 3600, 2 },
    { "timeout_s", validate.SECONDS, 0.05, 60, 1 },
    { "rise", validate.WHOLE, 1, 100, 2 },
    { "fall", validate.WHOLE, 1, 100, 3 },
}

local FLAGS = { tls = false, tls_verify = true } -- and their defaults

local bad = validate.bad

local _M = { CONNECTED = "CONNECTED" } -- what a check that only connects has for an answer


--- Tell whether a certificate can be for a name: no address and no port, and not all the names below one.
function _M.is_server_name(value)
    return type(value) == "string" and #value <= MAX_HOST and string.find(value, "^[%w_-][%w._-]*$") ~= nil
           and string.find(value, "%a") ~= nil
end


local HOW_PATH = 'write it as check = { path = "/healthz" }'

-- The texts: the setting, what it must be, what another one is, and how it is written. They go into a request as they
-- are: nothing in them may end its line.
local TEXTS = {
    { "path", validate.text("^/[!-~]*$", 1001), "is no path", HOW_PATH },
    { "grpc_service", validate.text("^[%w._/-]*$", 127), "is no name of a service",
      'write it as grpc_service = "shop.Orders", or "" for the server as a whole' },
    { "host", validate.text("^[%w.:_%[%]-]+$", MAX_HOST), "is no host name",
      'write it as host = "example.org", or leave it out for the address' },
    { "tls_server_name", _M.is_server_name, "is no host name",
      'write it as tls_server_name = "example.org", or leave it out for the host' },
}


--- A set of statuses in words: "200, 204-206".
local function words_of(statuses)
    local words, status = {}, 100
    while status < 600 do
        if statuses[status] then
            local first = status
            while statuses[status + 1] do
                status = status + 1
            end
            words[#words + 1] = first == status and tostring(first) or first .. "-" .. status
        end
        status = status + 1
    end
    return table.concat(words, ", ")
end


--- What SNI says: the name that is given, or the host's without its port.
local function server_name_of(values)
    local name = values.tls_server_name or string.gsub(values.host or "", ":%d*$", "")
    return _M.is_server_name(name) and name or nil
end


--- Refuse what does not go together in settings that are right one by one.
-- @param refuse function(reason, setting, problem, remedy), which raises
local function refuse_conflicts(values, statuses, refuse)
    if values.tcp and (values.path or values.grpc_service or statuses) then
        refuse("range", "tcp", "does not go with path, grpc_service and statuses: it only connects", "leave one out")
    elseif values.grpc_service and (values.path or statuses) then
        refuse("range", values.path and "path" or "statuses", "does not go with grpc_service", "leave one of them out")
    elseif values.grpc_service and values.tls then
        refuse("range", "tls", "does not go with grpc_service", "gRPC over TLS needs ALPN, which ngx_lua cannot offer: "
               .. "check a port without TLS, or a path")
    elseif not values.tls and (values.tls_server_name or not values.tls_verify) then
        refuse("range", values.tls_server_name and "tls_server_name" or "tls_verify", "has no effect without tls",
               "write tls = true, too")
    elseif values.tls and values.tls_verify and not server_name_of(values) then
        refuse("range", "tls_server_name", "is missing: the certificate has to be for a name, and the host is none",
               'write it as tls_server_name = "example.org", or tls_verify = false to trust any certificate')
    end
end


local function words_of_request(values)
    if values.grpc_service then
        return "grpc.health.v1.Health/Check" .. (values.grpc_service ~= "" and " of " .. values.grpc_service or "")
    end
    local over = values.tls and " over TLS" .. (values.server_name and " as " .. values.server_name or "")
                 .. (values.tls_verify and "" or ", unverified") or ""
    return (values.tcp and "a connection" or "GET " .. values.path) .. over
end


--- The set of good statuses.
-- @param list the setting `statuses`, or nil for the default
local function good_statuses(list)
    local statuses = {}
    if list then
        for i = 1, #list do
            statuses[list[i]] = true
        end
    else
        for status = FIRST_GOOD, LAST_GOOD do
            statuses[status] = true
        end
    end
    return statuses
end


--- Add what follows from settings that are right one by one.
-- @param list   the good statuses, or nil
-- @param refuse as above
local function complete(values, list, refuse)
    refuse_conflicts(values, list, refuse)
    local statuses = good_statuses(list)
    values.statuses, values.statuses_words = statuses, words_of(statuses)
    if values.tcp then
        values.statuses, values.statuses_words = { [_M.CONNECTED] = true }, _M.CONNECTED
    elseif values.grpc_service then
        values.statuses, values.statuses_words = { SERVING = true }, "SERVING"
    end
    values.server_name = values.tls and server_name_of(values) or nil
    values.words = words_of_request(values)
    values.about = values.words .. " " .. (values.host or "") .. " " .. values.statuses_words
    values.id = string.format("%s %.17g %.17g %d %d", values.about, values.interval_s, values.timeout_s,
                              values.rise, values.fall)
    return values
end


--- Take the settings that are texts and flags.
-- @param null   what a text may be as if it were left out, or nil
-- @param refuse as above
local function texts_and_flags(values, given, null, refuse)
    for _, text in ipairs(TEXTS) do
        local key, is_right, problem, remedy = unpack(text)
        local value = given[key]
        if value ~= nil and value ~= null then
            if type(value) ~= "string" then
                refuse("type", key, "is not a string", remedy)
            elseif not is_right(value) then
                refuse("range", key, problem, remedy)
            end
            values[key] = value
        end
    end
    for key, default in pairs(FLAGS) do
        local value = given[key]
        if value == nil then
            value = default
        elseif type(value) ~= "boolean" then
            refuse("type", key, "is neither true nor false", "leave it out for " .. tostring(default))
        end
        values[key] = value
    end
end


--- Check a list of HTTP statuses, or nil; raises with option and remedy.
function _M.statuses(name, given)
    local remedy = "write it as statuses = {200, 204}"
    if given ~= nil and (type(given) ~= "table" or #given == 0) then
        bad(name, "must be a list", remedy)
    end
    for _, status in ipairs(given or {}) do
        if type(status) ~= "number" or status < 100 or status > 599 or status ~= math.floor(status) then
            bad(name, "has " .. tostring(status) .. ", which is no HTTP status", remedy)
        end
    end
    return given
end


--- The option `check` of an upstream, with its defaults; raises with option and remedy.
-- @param name of the option, for the error
-- @param host the upstream's, or nil: the check's unless it has one
-- @return nil where there is no check
function _M.of_options(name, given, host)
    if given == nil or given == false then
        return nil
    end
    if type(given) ~= "table" then
        bad(name, "must be a table", HOW_PATH)
    end
    validate.only_known(given, KNOWN, name .. ".")
    if given.tcp ~= nil and given.tcp ~= true then
        bad(name .. ".tcp", "is not true", "write it as check = { tcp = true }, or leave it out")
    elseif given.path == nil and given.grpc_service == nil and not given.tcp then
        bad(name .. ".path", "is missing", HOW_PATH .. ', or as check = { grpc_service = "" }, or { tcp = true }')
    end
    local function refuse(_, key, problem, remedy)
        bad(name .. "." .. key, problem, remedy)
    end
    local values = validate.numbers(given, NUMBERS, name .. ".")
    texts_and_flags(values, given, nil, refuse)
    values.host, values.tcp = values.host or host, given.tcp -- a table cannot say it: older nginx would refuse it
    return complete(values, _M.statuses(name .. ".statuses", given.statuses), refuse)
end


local function wire_statuses(row)
    local given = row.statuses
    if given == nil or given == wire.null then
        return nil
    end
    if type(given) ~= "table" or (#given == 0 and next(given) ~= nil) then
        wire.refuse("type", '"statuses" of the check is not an array')
    elseif #given == 0 then
        wire.refuse("range", '"statuses" of the check is empty')
    end
    for i = 1, #given do
        wire.integer({ statuses = given[i] }, "statuses", 100, 599)
    end
    return given
end


--- The member `check` of a weight table, which has the defaults filled in but those of settings that came
-- later; refuses the table when it is malformed (within wire.total). Nil where there is none.
function _M.of_table(document)
    local row = document.check
    if row == nil then
        return nil
    end
    if type(row) ~= "table" or row[1] ~= nil then
        wire.refuse("type", '"check" is not an object')
    end
    local function refuse(reason, key, problem)
        wire.refuse(reason, '"' .. key .. '" of the check ' .. problem)
    end
    local values = {}
    texts_and_flags(values, row, wire.null, refuse)
    for _, number in ipairs(NUMBERS) do
        local key, what, low, high = unpack(number)
        values[key] = (what == validate.WHOLE and wire.integer or wire.number)(row, key, low, high)
    end
    local statuses = wire_statuses(row)
    if not values.path and not values.grpc_service then
        wire.refuse("missing", 'the check has neither "path" nor "grpc_service"')
    end
    return complete(values, statuses, refuse)
end


return _M
