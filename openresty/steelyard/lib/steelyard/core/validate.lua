--- Checks of init_worker's options. A bad option is the caller's bug: an error that names it and the remedy. Pure.
--
-- Options are rows of a table, in core/options and core/upstream_options:
--
--   name      the option
--   default   its value if it is left out
--   unset     without a default: what holds if it is left out, for errors
--   required  whether its check is called even if it is left out
--   check     function(value, option, row, settings): return the setting, or raise. `option` is its full name;
--             `settings` has the options of the rows above
--   taken_by  the module that reads the setting, such as "phase/limit"
--   read_as   the name under which it does, if that is not the option's
--   stream    for an option of an upstream: whether stream {} has it, too
--   single_upstream  whether any_upstream may not have it, because it is about one upstream
--
-- An option cannot exist without a check, because only rows are known; and spec/core/option_table_spec.lua fails if the
-- module that takes an option does not read it.
--
-- Numbers that belong together are shorter rows: the option, its kind, the lowest, the highest, the default.

local _M = { NUMBER = "a number", SECONDS = "a number of seconds", WHOLE = "a whole number" }


--- Refuse an option: raise an error that names it, the problem and the remedy.
function _M.bad(option, problem, remedy)
    error("steelyard.init_worker: option `" .. option .. "` " .. problem .. "; " .. remedy, 0)
end


--- Check that a table has only the keys in `known`, separated by ", ".
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


--- Return an option's number within bounds, or the default.
-- @param what  NUMBER, SECONDS, WHOLE, or other words; "whole" in them counts
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


--- Return an optional number, or nil.
-- @param without the meaning of nil, for the error
function _M.optional(where, given, name, what, low, high, without)
    return given[name] ~= nil and _M.number(given, name, where .. name, what, low, high, without) or nil
end


--- Make a rule for `right`: a text of one form.
-- @param most bytes of it; left out: any number
function _M.text(pattern, most)
    return function(value)
        return type(value) == "string" and #value <= (most or 1 / 0) and string.find(value, pattern) ~= nil
    end
end


--- Return an optional value, or raise if it is not right.
-- @param is_right function of its value; or its type
-- @param problem  of a value that is not right; %s is replaced by the value
function _M.right(where, given, name, is_right, problem, remedy)
    local value = given[name]
    if value == nil or type(value) == is_right or type(is_right) == "function" and is_right(value) then
        return value
    end
    _M.bad(where .. name, string.format(problem, tostring(value)), remedy)
end


--- The check of a number within bounds.
function _M.within(what, low, high)
    return function(value, option, row)
        local left_out = row.default
        if left_out == nil then
            left_out = row.unset
        end
        return _M.number({ [option] = value }, option, option, what, low, high, left_out)
    end
end


--- The check of any other single value.
-- @param is_right function of the value; or the type that it must have
-- @param problem  of a value that is not right; %s is replaced by the value
function _M.matching(is_right, problem, remedy)
    return function(value, option)
        return _M.right("", { [option] = value }, option, is_right, problem, remedy)
    end
end


--- The names of some rows as a text, for only_known().
-- @param is_chosen function of a row; left out: all of them
function _M.names(rows, is_chosen)
    local names = {}
    for _, row in ipairs(rows) do
        if not is_chosen or is_chosen(row) then
            names[#names + 1] = row.name
        end
    end
    return table.concat(names, ", ")
end


--- Check options against the rows of those that exist, and fill in the defaults; raises with option and remedy.
-- @param where what is before their names in an error
-- @return the settings, by the options' names
function _M.options(rows, given, where)
    _M.only_known(given, _M.names(rows), where)
    local settings = {}
    for _, row in ipairs(rows) do
        local value = given[row.name]
        if value == nil then
            value = row.default
        end
        if value ~= nil or row.required then
            value = row.check(value, where .. row.name, row, settings)
        end
        settings[row.name] = value
    end
    return settings
end


--- Return the numbers of some rows, by their options' names.
-- @param where what is before the names in an error
function _M.numbers(given, rows, where)
    local values = {}
    for _, row in ipairs(rows) do
        local option = row[1]
        values[option] = _M.number(given, option, where .. option, unpack(row, 2))
    end
    return values
end


--- Return the numbers of an option that is a table of them and of nothing else; {} is all defaults.
function _M.table_of_numbers(given, rows, name, problem, remedy)
    if type(given) ~= "table" then
        _M.bad(name, problem, remedy)
    end
    local known = {}
    for i, row in ipairs(rows) do
        known[i] = row[1]
    end
    _M.only_known(given, table.concat(known, ", "), name .. ".")
    return _M.numbers(given, rows, name .. ".")
end


return _M
