--- The common part of all wire formats of version 1: keys, names, checks of fields.
--
-- Text in, a value or a refusal out. If a decoder raised, anyone able to write one Memcached item could stop a data
-- plane. So `total` catches the refusals raised below, and nothing else: a bug still raises. The Python side is
-- protocol/steelyard_protocol/wire.py. Both ends give the same reason for every value in docs/contract. They differ in
-- harmless ways: lua-cjson does not distinguish 1.0 or 1e2 from a whole number, or [] from {}, and accepts `1.`. Pure.

local json = require "steelyard.core.json"

local VERSION = 1

-- Memcached's default item size: no item is larger.
local MAX_BYTES = 1024 * 1024

-- The same for a weight table, in chunks if need be: 90,000 servers with ordinary names, 30,000 with the longest names
-- and addresses.
local MAX_TABLE_BYTES = 8 * MAX_BYTES

-- Integers above this are not exact in a double.
local MAX_INTEGER = 2 ^ 53

local _M = {
    VERSION = VERSION, MAX_BYTES = MAX_BYTES, MAX_TABLE_BYTES = MAX_TABLE_BYTES, MAX_INTEGER = MAX_INTEGER,
    null = json.null,
}

local refusal = {}


--- Return a key in Memcached: "steelyard:1:" and the parts, joined by colons.
--
--   upstreams                        the list of all upstreams
--   upstreams:<installation>         the list of an installation with a name
--   load-balancers                   the undeclared load balancers
--   runs                             the runs of load balancers
--   weights:<upstream>               its weight table
--   head:<upstream>                  the table's head
--   chunk:<upstream>:<name>          a chunk of its table
--   traffic:<upstream>:<lb>          a load balancer's traffic report
--   failures:<lb>                    its report of failures
function _M.key(...)
    return "steelyard:" .. VERSION .. ":" .. table.concat({ ... }, ":")
end


--- Tell whether a value can name an upstream, a peer or a load balancer.
function _M.is_name(value)
    return type(value) == "string" and #value <= 64 and string.find(value, "^%w[%w._-]*$") ~= nil
end


--- Refuse the value being decoded; only within `total`.
function _M.refuse(reason, detail)
    error(setmetatable({ reason = reason, detail = detail }, refusal), 0)
end


--- Run decoder(...); return its value, or nil and { reason, detail }.
function _M.total(decoder, ...)
    local ok, value = pcall(decoder, ...)
    if ok then
        return value
    end
    if getmetatable(value) ~= refusal then
        error(value, 0)
    end
    return nil, { reason = value.reason, detail = value.detail }
end


local function shown(value)
    local kind = type(value)
    if kind == "string" then
        local quoted = string.format("%q", string.sub(value, 1, 60))
        return (string.gsub(quoted, "\n", "n")) -- %q puts a backslash before a line end
    elseif kind == "table" then
        return "an object or array"
    elseif value == json.null then
        return "null"
    end
    return tostring(value)
end


--- Parse an object of wire version 1.
-- @param decode text -> value; nil and the problem; json.decode if left out
-- @param most   bytes of text; MAX_BYTES if left out
-- @return the object, and the second result of `decode`
function _M.load_object(text, decode, most)
    most = most or MAX_BYTES
    if #text > most then
        _M.refuse("too_large", #text .. " bytes, at most " .. most .. " are read")
    end
    local document, more = (decode or json.decode)(text)
    if document == nil then
        _M.refuse("not_json", string.sub(tostring(more), 1, 200))
    end
    if type(document) ~= "table" or not string.find(text, "^%s*{") then
        _M.refuse("not_object", "a JSON value that is not an object")
    end
    if document.v == nil then
        _M.refuse("missing", 'no "v" (the format version)')
    end
    if document.v ~= VERSION then
        _M.refuse("version", "version " .. shown(document.v) .. ", this program reads " .. VERSION)
    end
    return document, more
end


--- Return a required field.
function _M.field(document, key)
    local value = document[key]
    if value == nil then
        _M.refuse("missing", 'no "' .. key .. '"')
    end
    return value
end


--- Return a required array. lua-cjson turns {} and [] into the same table; the text distinguishes them.
function _M.array(document, key, text)
    local value = _M.field(document, key)
    if type(value) ~= "table" or value[1] == nil and (next(value) ~= nil
                                                      or string.find(text, '"' .. key .. '"%s*:%s*{')) then
        _M.refuse("type", '"' .. key .. '" is not an array')
    end
    return value
end


--- Return a required name.
function _M.name(document, key)
    local value = _M.field(document, key)
    if not _M.is_name(value) then
        _M.refuse("name", '"' .. key .. '" is ' .. shown(value) .. "; a name is [A-Za-z0-9][A-Za-z0-9._-]{0,63}")
    end
    return value
end


--- Return a required whole number within bounds.
function _M.integer(document, key, low, high)
    local value = _M.field(document, key)
    if type(value) ~= "number" or value ~= math.floor(value) or value == 1 / 0 or value == -1 / 0 then
        _M.refuse("type", '"' .. key .. '" is ' .. shown(value) .. ", not a whole number")
    end
    if value < low or value > high then
        _M.refuse("range", string.format('"%s" is %s, outside %d..%d', key, shown(value), low, high))
    end
    return value
end


--- Return a required number within bounds.
function _M.number(document, key, low, high)
    local value = _M.field(document, key)
    if type(value) ~= "number" then
        _M.refuse("type", '"' .. key .. '" is ' .. shown(value) .. ", not a number")
    end
    if not (value >= low and value <= high) then
        _M.refuse("range", string.format('"%s" is %s, outside %g..%g', key, shown(value), low, high))
    end
    return value
end


--- Return a required string of 1..longest bytes.
function _M.text(document, key, longest)
    local value = _M.field(document, key)
    if type(value) ~= "string" then
        _M.refuse("type", '"' .. key .. '" is ' .. shown(value) .. ", not a string")
    end
    if #value == 0 or #value > longest then
        _M.refuse("range", '"' .. key .. '" has ' .. #value .. " characters, 1.." .. longest .. " are allowed")
    end
    return value
end


return _M
