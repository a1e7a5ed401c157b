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

local KNOWN = "path, statuses, interval_s, timeout_s, rise, fall, host, tls, tls_server_name, tls_verify, grpc_service"

local MAX_PATH, MAX_HOST, MAX_SERVICE = 1001, 253, 127

-- Good unless the settings say otherwise: RFC 9110's successes and redirects.
local FIRST_GOOD, LAST_GOOD = 200, 399

local NO_PATH, NO_HOST, NO_SERVICE = "is no path", "is no host name", "is no name of a service"

local bad = validate.bad

local _M = {}


-- They go into a request as they are: nothing in them may end its line.
local function is_path(value)
    return type(value) == "string" and #value <= MAX_PATH and string.find(value, "^/[!-~]*$") ~= nil
end


local function is_host(value)
    return type(value) == "string" and #value <= MAX_HOST and string.find(value, "^[%w.:_%[%]-]+$") ~= nil
end


local function is_flag(value)
    return type(value) == "boolean"
end


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


--- Tell whether a certificate can be for a name: no address and no port, and not all the names below one.
function _M.is_server_name(value)
    return type(value) == "string" and #value <= MAX_HOST and string.find(value, "^[%w_-][%w._-]*$") ~= nil
           and string.find(value, "%a") ~= nil
end


local function is_service(value)
    return type(value) == "string" and #value <= MAX_SERVICE and string.find(value, "^[%w._/-]*$") ~= nil
end


--- What SNI says: the name that is given, or the host's without its port.
local function server_name_of(values)
    local name = values.tls_server_name or string.gsub(values.host or "", ":%d*$", "")
    return _M.is_server_name(name) and name or nil
end


--- What does not go together in settings that are right one by one: setting, problem, remedy; nil if all does.
local function conflict(values, statuses)
    if values.grpc_service and (values.path or statuses) then
        return values.path and "path" or "statuses", "does not go with grpc_service", "leave one of them out"
    elseif values.grpc_service and values.tls then
        return "tls", "does not go with grpc_service", "gRPC over TLS needs ALPN, which ngx_lua cannot offer: check "
               .. "a port without TLS, or a path"
    elseif not values.tls and (values.tls_server_name or not values.tls_verify) then
        return values.tls_server_name and "tls_server_name" or "tls_verify", "has no effect without tls",
               "write tls = true, too"
    elseif values.tls and values.tls_verify and not server_name_of(values) then
        return "tls_server_name", "is missing: the certificate has to be for a name, and the host is none",
               'write it as tls_server_name = "example.org", or tls_verify = false to trust any certificate'
    end
end


local function words_of_request(values)
    if values.grpc_service then
        return "grpc.health.v1.Health/Check" .. (values.grpc_service ~= "" and " of " .. values.grpc_service or "")
    end
    local over = values.tls and " over TLS" .. (values.server_name and " as " .. values.server_name or "")
                 .. (values.tls_verify and "" or ", unverified") or ""
    return "GET " .. values.path .. over
end


--- The settings of checked values; `list` is the good statuses, or nil.
local function made(values, list)
    local statuses = {}
    for status = FIRST_GOOD, list and FIRST_GOOD - 1 or LAST_GOOD do
        statuses[status] = true
    end
    for i = 1, list and #list or 0 do
        statuses[list[i]] = true
    end
    values.statuses, values.statuses_words = statuses, words_of(statuses)
    if values.grpc_service then
        values.statuses, values.statuses_words = { SERVING = true }, "SERVING"
    end
    values.server_name = values.tls and server_name_of(values) or nil
    values.words = words_of_request(values)
    values.about = values.words .. " " .. (values.host or "") .. " " .. values.statuses_words
    values.id = string.format("%s %.17g %.17g %d %d", values.about, values.interval_s, values.timeout_s,
                              values.rise, values.fall)
    return values
end


local function given_statuses(name, given)
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
    local remedy = 'write it as check = { path = "/healthz" }'
    if type(given) ~= "table" then
        bad(name, "must be a table", remedy)
    end
    validate.only_known(given, KNOWN, name .. ".")
    local function fits(key, is_right, problem, right)
        if given[key] ~= nil and not is_right(given[key]) then
            bad(name .. "." .. key, problem, right)
        end
        return given[key]
    end
    local function flag(key, default)
        fits(key, is_flag, "is neither true nor false", "leave it out for " .. tostring(default))
        return given[key] == nil and default or given[key] == true
    end
    local function setting(key, what, low, high, default)
        return validate.number(given, key, name .. "." .. key, what, low, high, default)
    end
    if given.path == nil and given.grpc_service == nil then
        bad(name .. ".path", "is missing", remedy .. ', or as check = { grpc_service = "" }')
    end
    local values = {
        path = fits("path", is_path, NO_PATH, remedy),
        grpc_service = fits("grpc_service", is_service, NO_SERVICE,
                            'write it as grpc_service = "shop.Orders", or "" for the server as a whole'),
        host = fits("host", is_host, NO_HOST,
                    'write it as host = "example.org", or leave it out for the address') or host,
        tls = flag("tls", false),
        tls_server_name = fits("tls_server_name", _M.is_server_name, NO_HOST,
                               'write it as tls_server_name = "example.org", or leave it out for the host'),
        tls_verify = flag("tls_verify", true),
        interval_s = setting("interval_s", "a number of seconds", 0.1, 3600, 2),
        timeout_s = setting("timeout_s", "a number of seconds", 0.05, 60, 1),
        rise = setting("rise", "a whole number", 1, 100, 2),
        fall = setting("fall", "a whole number", 1, 100, 3),
    }
    local statuses = given_statuses(name .. ".statuses", given.statuses)
    local which, problem, right = conflict(values, statuses)
    if which then
        bad(name .. "." .. which, problem, right)
    end
    return made(values, statuses)
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


--- A text that may be missing or null.
local function wire_text(row, key, is_right, problem)
    local value = row[key]
    if value == nil or value == wire.null then
        return nil
    elseif type(value) ~= "string" then
        wire.refuse("type", '"' .. key .. '" of the check is not a string')
    elseif not is_right(value) then
        wire.refuse("range", '"' .. key .. '" of the check ' .. problem)
    end
    return value
end


local function wire_flag(row, key, default)
    if row[key] == nil then
        return default
    elseif not is_flag(row[key]) then
        wire.refuse("type", '"' .. key .. '" of the check is neither true nor false')
    end
    return row[key]
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
    local values = {
        path = wire_text(row, "path", is_path, NO_PATH),
        grpc_service = wire_text(row, "grpc_service", is_service, NO_SERVICE),
        host = wire_text(row, "host", is_host, NO_HOST),
        tls = wire_flag(row, "tls", false),
        tls_server_name = wire_text(row, "tls_server_name", _M.is_server_name, NO_HOST),
        tls_verify = wire_flag(row, "tls_verify", true),
        interval_s = wire.number(row, "interval_s", 0.1, 3600),
        timeout_s = wire.number(row, "timeout_s", 0.05, 60),
        rise = wire.integer(row, "rise", 1, 100),
        fall = wire.integer(row, "fall", 1, 100),
    }
    local statuses = wire_statuses(row)
    if not values.path and not values.grpc_service then
        wire.refuse("missing", 'the check has neither "path" nor "grpc_service"')
    end
    local which, problem = conflict(values, statuses)
    if which then
        wire.refuse("range", '"' .. which .. '" of the check ' .. problem)
    end
    return made(values, statuses)
end


return _M
