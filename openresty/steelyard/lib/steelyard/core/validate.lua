--- Checks of one option of init_worker. A bad option is the caller's bug: an
-- error that names it and the remedy. Pure.

local _M = {}


--- Refuse an option.
function _M.bad(option, problem, remedy)
    error("steelyard.init_worker: option `" .. option .. "` " .. problem .. "; " .. remedy, 0)
end


--- Check that a table has only keys that `known` lists, separated by ", ".
function _M.only_known(given, known, where)
    local allowed = {}
    for key in string.gmatch(known, "[%w_]+") do
        allowed[key] = true
    end
    for key in pairs(given) do
        if not allowed[key] then
            _M.bad(where .. tostring(key), "is unknown", "there are: " .. known)
        end
    end
end


--- An option that must be a table.
function _M.list(given, option, name, remedy)
    local value = given[option]
    if type(value) ~= "table" then
        _M.bad(name, "must be a table", remedy)
    end
    return value
end


--- A number within bounds, or the default.
-- @param what  "a number of seconds", "a whole number" ...
function _M.number(given, option, name, what, low, high, default)
    local value = given[option]
    if value == nil then
        value = default
    end
    local whole = not string.find(what, "whole", 1, true) or (type(value) == "number" and value == math.floor(value))
    if type(value) ~= "number" or not whole or not (value >= low and value <= high) then
        _M.bad(name, "must be " .. what .. " within " .. low .. ".." .. high,
               "leave it out for " .. tostring(default))
    end
    return value
end


return _M
