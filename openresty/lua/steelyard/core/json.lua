--- JSON as this program reads and writes it, the same with either lua-cjson.
--
-- An instance of its own: settings of `cjson.safe` itself would change every
-- other user of it in the same nginx. Debian's lua-cjson knows no arrays on
-- decoding, and encodes an empty table as {}. Pure.

local cjson = require("cjson.safe").new()

-- NaN, Infinity, 0x10 and 01 are not JSON (RFC 8259); lua-cjson takes them unless told.
cjson.decode_invalid_numbers(false)

-- Numbers are written with 14 digits (Debian's lua-cjson has no more): integers
-- are exact up to 1e14, which is milliseconds until the year 5138.

local byte = string.byte

local EMPTY_ARRAY = "\1[]"

local _M = { null = cjson.null }


--- Tell whether a string holds a control character, which JSON wants escaped
-- and lua-cjson does not mind. Tabs and line ends are fine between the strings.
local function has_control_character(text)
    -- Hardly any text has one, and this loop is compiled: 1 ns a byte, where a pattern takes 30.
    local suspicious = false
    for i = 1, #text do
        suspicious = suspicious or byte(text, i) < 32
    end
    if not suspicious then
        return false
    end
    if string.find(text, "[%z\1-\8\11\12\14-\31]") then
        return true
    end
    if string.find(text, "[\9\10\13]") then
        for content in string.gmatch(string.gsub(text, "\\.", ""), '"([^"]*)"') do
            if string.find(content, "[\9\10\13]") then
                return true
            end
        end
    end
    return false
end


--- Parse; nil and the reason when it is not JSON.
function _M.decode(text)
    if has_control_character(text) then
        return nil, "a control character"
    end
    return cjson.decode(text)
end


--- Serialise; nil and the reason for what JSON cannot hold (NaN, functions).
function _M.encode(value)
    local text, err = cjson.encode(value)
    if not text then
        return nil, err
    end
    return (string.gsub(text, '"\\u0001%[%]"', "[]"))
end


--- The list as it must be written: an empty one would come out as {}.
function _M.array(list)
    if #list == 0 then
        return EMPTY_ARRAY
    end
    return list
end


return _M
