--- The settings of an active check: from the option `check` in nginx.conf, or from a weight table.
--
-- Both have the same fields and bounds (FIELDS). A mistake in nginx.conf is the caller's bug and raises an error; a
-- mistake in a weight table makes the table refused. Checked settings have these fields in addition:
--
--   about        what is asked, and which answers are good; while it stays the same, earlier results count
--   id           about, and the numbers: the same for the same settings
--   words        what is asked, in words
--   server_name  with TLS: the name for SNI and for the certificate
--
-- Pure.

local validate = require "steelyard.core.validate"
local wire = require "steelyard.core.wire"

local MAX_HOST_BYTES = 253

-- Good unless `statuses` says otherwise: the successes and redirects of RFC 9110.
local FIRST_GOOD, LAST_GOOD = 200, 399

local LOWEST_STATUS, HIGHEST_STATUS = 100, 599

local bad = validate.bad

local _M = { CONNECTED = "CONNECTED" } -- the answer of a check that only connects


--- Tell whether a certificate can be for a name: it is no address, has no port, and is no wildcard.
function _M.is_server_name(value)
    return type(value) == "string" and #value <= MAX_HOST_BYTES and string.find(value, "^[%w_-][%w._-]*$") ~= nil
           and string.find(value, "%a") ~= nil
end


local HOW_PATH = 'write it as check = { path = "/healthz" }'

-- The fields, as in docs/contract/check.json. Texts go into a request unchanged: nothing in them may end its line.
-- `tcp` is an option of nginx.conf alone: a weight table cannot have it.
_M.FIELDS = {
    { name = "path", kind = "text", is_right = validate.text("^/[!-~]*$", 1001), problem = "is no path",
      remedy = HOW_PATH },
    { name = "statuses", kind = "statuses", lowest = LOWEST_STATUS, highest = HIGHEST_STATUS },
    { name = "interval_s", kind = "number", unit = validate.SECONDS, lowest = 0.1, highest = 3600, default = 2 },
    { name = "timeout_s", kind = "number", unit = validate.SECONDS, lowest = 0.05, highest = 60, default = 1 },
    { name = "rise", kind = "whole number", unit = validate.WHOLE, lowest = 1, highest = 100, default = 2 },
    { name = "fall", kind = "whole number", unit = validate.WHOLE, lowest = 1, highest = 100, default = 3 },
    { name = "host", kind = "text", is_right = validate.text("^[%w.:_%[%]-]+$", MAX_HOST_BYTES),
      problem = "is no host name", remedy = 'write it as host = "example.org", or leave it out for the address' },
    { name = "tls", kind = "flag", default = false },
    { name = "tls_server_name", kind = "text", is_right = _M.is_server_name, problem = "is no host name",
      remedy = 'write it as tls_server_name = "example.org", or leave it out for the host' },
    { name = "tls_verify", kind = "flag", default = true },
    { name = "grpc_service", kind = "text", is_right = validate.text("^[%w._/-]*$", 127),
      problem = "is no name of a service",
      remedy = 'write it as grpc_service = "shop.Orders", or "" for the server as a whole' },
}

local KNOWN_OPTIONS = validate.names(_M.FIELDS) .. ", tcp"


--- A set of statuses in words: "200, 204-206".
local function words_of(statuses)
    local words, status = {}, LOWEST_STATUS
    while status <= HIGHEST_STATUS do
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


--- The name for SNI: tls_server_name, or the host without its port; nil if neither is a name.
local function server_name_of(values)
    local name = values.tls_server_name or string.gsub(values.host or "", ":%d*$", "")
    return _M.is_server_name(name) and name or nil
end


--- Refuse settings that are right one by one, but not together.
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
        refuse("range", "tls_server_name", "is missing: a certificate is for a name, and the host is none",
               'write it as tls_server_name = "example.org", or tls_verify = false to trust any certificate')
    end
end


local function words_of_request(values)
    if values.grpc_service then
        return "grpc.health.v1.Health/Check" .. (values.grpc_service ~= "" and " of " .. values.grpc_service or "")
    end
    local words = values.tcp and "a connection" or "GET " .. values.path
    if values.tls then
        words = words .. " over TLS" .. (values.server_name and " as " .. values.server_name or "")
                .. (values.tls_verify and "" or ", unverified")
    end
    return words
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


--- Check the settings against each other, and add the fields that follow from them.
-- @param list   the setting `statuses`, or nil
-- @param refuse as above
local function complete(values, list, refuse)
    refuse_conflicts(values, list, refuse)
    if values.tcp then
        values.statuses, values.statuses_words = { [_M.CONNECTED] = true }, _M.CONNECTED
    elseif values.grpc_service then
        values.statuses, values.statuses_words = { SERVING = true }, "SERVING"
    else
        values.statuses = good_statuses(list)
        values.statuses_words = words_of(values.statuses)
    end
    values.server_name = values.tls and server_name_of(values) or nil
    values.words = words_of_request(values)
    values.about = values.words .. " " .. (values.host or "") .. " " .. values.statuses_words
    values.id = string.format("%s %.17g %.17g %d %d", values.about, values.interval_s, values.timeout_s,
                              values.rise, values.fall)
    return values
end


--- Check a text; nil if it is left out.
-- @param null   a value that counts as left out, or nil
-- @param refuse as above
local function checked_text(field, value, null, refuse)
    if value == nil or value == null then
        return nil
    elseif type(value) ~= "string" then
        refuse("type", field.name, "is not a string", field.remedy)
    elseif not field.is_right(value) then
        refuse("range", field.name, field.problem, field.remedy)
    end
    return value
end


--- Check a flag; its default if it is left out.
local function checked_flag(field, value, refuse)
    if value == nil then
        return field.default
    elseif type(value) ~= "boolean" then
        refuse("type", field.name, "is neither true nor false", "leave it out for " .. tostring(field.default))
    end
    return value
end


--- Check all fields but the statuses.
-- @param null   as above
-- @param number function(field): the number, checked as its source requires
-- @param refuse as above
local function checked_fields(given, null, number, refuse)
    local values = {}
    for _, field in ipairs(_M.FIELDS) do
        local name, kind = field.name, field.kind
        if kind == "text" then
            values[name] = checked_text(field, given[name], null, refuse)
        elseif kind == "flag" then
            values[name] = checked_flag(field, given[name], refuse)
        elseif kind ~= "statuses" then
            values[name] = number(field)
        end
    end
    return values
end


--- Check a list of HTTP statuses, or nil; raises with option and remedy.
function _M.statuses(name, given)
    local remedy = "write it as statuses = {200, 204}"
    if given == nil then
        return nil
    end
    if type(given) ~= "table" or #given == 0 then
        bad(name, "must be a list", remedy)
    end
    for _, status in ipairs(given) do
        if type(status) ~= "number" or status < LOWEST_STATUS or status > HIGHEST_STATUS
           or status ~= math.floor(status) then
            bad(name, "has " .. tostring(status) .. ", which is no HTTP status", remedy)
        end
    end
    return given
end


--- Check the option `check` of an upstream and fill in its defaults; raises with option and remedy.
-- @param name of the option, for the error
-- @param host the upstream's `host`, which the check has unless it names another; or nil
-- @return nil if there is no check
function _M.of_options(name, given, host)
    if given == nil or given == false then
        return nil
    end
    if type(given) ~= "table" then
        bad(name, "must be a table", HOW_PATH)
    end
    validate.only_known(given, KNOWN_OPTIONS, name .. ".")
    if given.tcp ~= nil and given.tcp ~= true then
        bad(name .. ".tcp", "is not true", "write it as check = { tcp = true }, or leave it out")
    elseif given.path == nil and given.grpc_service == nil and not given.tcp then
        bad(name .. ".path", "is missing", HOW_PATH .. ', or as check = { grpc_service = "" }, or { tcp = true }')
    end
    local function refuse(_, key, problem, remedy)
        bad(name .. "." .. key, problem, remedy)
    end
    local function number(field)
        return validate.number(given, field.name, name .. "." .. field.name, field.unit, field.lowest, field.highest,
                               field.default)
    end
    local values = checked_fields(given, nil, number, refuse)
    values.host, values.tcp = values.host or host, given.tcp
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
        wire.integer({ statuses = given[i] }, "statuses", LOWEST_STATUS, HIGHEST_STATUS)
    end
    return given
end


--- Read the member `check` of a weight table; nil if there is none. Refuses the table if it is malformed (within
-- wire.total). The controller sends the numbers always; other fields have their defaults if they are left out.
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
    local function number(field)
        local read = field.kind == "whole number" and wire.integer or wire.number
        return read(row, field.name, field.lowest, field.highest)
    end
    local values = checked_fields(row, wire.null, number, refuse)
    local statuses = wire_statuses(row)
    if not values.path and not values.grpc_service then
        wire.refuse("missing", 'the check has neither "path" nor "grpc_service"')
    end
    return complete(values, statuses, refuse)
end


return _M
