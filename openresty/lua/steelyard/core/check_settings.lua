--- The settings of an active check, from nginx.conf or from a weight table. Pure.
--
-- The bounds stand here once for both; the controller's are the same
-- (controller/steelyard_controller/pipeline/weight_table.py). In nginx.conf a mistake is
-- the caller's, and raises; in a weight table it makes the table refused.
--
--   about   what is asked, and which answers are good: what was found out by a
--           check holds for as long as this is the same
--   id      all of it

local check = require "steelyard.core.check"
local option = require "steelyard.core.option"
local wire = require "steelyard.core.wire"

local KNOWN = "path, statuses, interval_s, timeout_s, rise, fall, host"

local MAX_PATH, MAX_HOST = 1001, 253

-- Good unless the settings say otherwise: RFC 9110's successes and redirects.
local FIRST_GOOD, LAST_GOOD = 200, 399

local bad = option.bad

local _M = {}


-- They go into a request as they are: nothing in them may end its line.
local function is_path(value)
    return type(value) == "string" and #value <= MAX_PATH and string.find(value, "^/[!-~]*$") ~= nil
end


local function is_host(value)
    return type(value) == "string" and #value <= MAX_HOST and string.find(value, "^[%w.:_%[%]-]+$") ~= nil
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
    local words = check.words_of(statuses)
    values.statuses, values.statuses_words = statuses, words
    values.about = values.path .. " " .. (values.host or "") .. " " .. words
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
-- @return nil where there is no check
function _M.of_options(name, given)
    if given == nil or given == false then
        return nil
    end
    local remedy = 'write it as check = { path = "/healthz" }'
    if type(given) ~= "table" then
        bad(name, "must be a table", remedy)
    end
    option.only_known(given, KNOWN, name .. ".")
    if not is_path(given.path) then
        bad(name .. ".path", "is no path", remedy)
    end
    if given.host ~= nil and not is_host(given.host) then
        bad(name .. ".host", "is no host name", 'write it as host = "example.org", or leave it out for the address')
    end
    local function setting(key, what, low, high, default)
        return option.number(given, key, name .. "." .. key, what, low, high, default)
    end
    return made({
        path = given.path, host = given.host,
        interval_s = setting("interval_s", "a number of seconds", 0.1, 3600, 2),
        timeout_s = setting("timeout_s", "a number of seconds", 0.05, 60, 1),
        rise = setting("rise", "a whole number", 1, 100, 2),
        fall = setting("fall", "a whole number", 1, 100, 3),
    }, given_statuses(name .. ".statuses", given.statuses))
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


local function wire_host(row)
    if row.host == nil or row.host == wire.null then
        return nil
    end
    if not is_host(wire.text(row, "host", MAX_HOST)) then
        wire.refuse("range", '"host" of the check is no host name')
    end
    return row.host
end


--- The member `check` of a weight table, which has the defaults filled in; refuses
-- the table when it is malformed (within wire.total). Nil where there is none.
function _M.of_table(document)
    local row = document.check
    if row == nil then
        return nil
    end
    if type(row) ~= "table" or row[1] ~= nil then
        wire.refuse("type", '"check" is not an object')
    end
    if not is_path(wire.text(row, "path", MAX_PATH)) then
        wire.refuse("range", '"path" of the check is no path')
    end
    return made({
        path = row.path, host = wire_host(row),
        interval_s = wire.number(row, "interval_s", 0.1, 3600),
        timeout_s = wire.number(row, "timeout_s", 0.05, 60),
        rise = wire.integer(row, "rise", 1, 100),
        fall = wire.integer(row, "fall", 1, 100),
    }, wire_statuses(row))
end


return _M
