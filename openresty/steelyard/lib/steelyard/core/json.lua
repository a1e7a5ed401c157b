--- JSON, read and written alike with OpenResty's lua-cjson and Debian's.
--
-- It is an instance of its own: settings of `cjson.safe` itself would change every other user of it in the same nginx.
-- Debian's lua-cjson has no arrays on decoding, and encodes an empty table as {}. Pure.

local cjson = require("cjson.safe").new()
local ffi = require "ffi"
local number = require "steelyard.core.number"

-- NaN, Infinity, 0x10 and 01 are not JSON (RFC 8259), but lua-cjson accepts them by default.
cjson.decode_invalid_numbers(false)

-- lua-cjson writes 14 digits (Debian's has no more), and so 1e14 as `1e+14`: the controller reads no integer of this
-- kind. Terms and generations may have up to 16 digits.
local EXPONENT, LEAST_LONG = "e+1", 1e14

ffi.cdef "int memcmp(const void *a, const void *b, size_t length);"

local byte, find, sub = string.byte, string.find, string.sub
local bytes_of = ffi.typeof("const unsigned char *")

local EMPTY_ARRAY = "\1[]"

-- About 22 peers, and 0.05 ms.
local SLICE_BYTES = 2048

-- Rows between two calls of breathe(), if they are as known: 0.03 ms.
local ROWS_PER_BREATH = 100

local BETWEEN_OBJECTS, SPACE = "},{", 32

local _M = {
    null = cjson.null,
    AS_KNOWN = {}, -- stands for a row that is written as in a known list
}


--- Tell whether a string in the text holds a control character: JSON requires an escape, lua-cjson accepts it. Tabs and
-- line ends are fine between the strings.
local function has_control_character(text)
    -- Hardly any text has one, and this loop is compiled: 1 ns a byte, against 30 for a pattern.
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


--- Parse a text; return nil and the reason if it is not JSON.
function _M.decode(text)
    if has_control_character(text) then
        return nil, "a control character"
    end
    return cjson.decode(text)
end


--- Parse a text and accept control characters, for a text that another program judges. Looking for them takes 30 times
-- as long in a text with line ends.
function _M.decode_loosely(text)
    return cjson.decode(text)
end


--- Return a copy of a value with each integer of 15 or 16 digits as "\1" and its digits.
local function with_long_integers(value)
    if type(value) == "table" then
        local copy = {}
        for key, item in pairs(value) do
            copy[key] = with_long_integers(item)
        end
        return copy
    elseif type(value) == "number" and value % 1 == 0 then
        local size = math.abs(value)
        if size >= LEAST_LONG and size <= number.MAX_EXACT then
            return string.format("\1%.0f", value)
        end
    end
    return value
end


--- Encode a value; return nil and the reason for a value outside JSON (NaN, functions).
function _M.encode(value)
    local text, err = cjson.encode(value)
    if not text then
        return nil, err
    end
    if find(text, EXPONENT, 1, true) then -- hardly ever
        text = string.gsub(cjson.encode(with_long_integers(value)), '"\\u0001(%-?%d+)"', "%1")
    end
    return (string.gsub(text, '"\\u0001%[%]"', "[]"))
end


--- Return the value to encode for a list: lua-cjson would write an empty one as {}.
function _M.array(list)
    if #list == 0 then
        return EMPTY_ARRAY
    end
    return list
end


--- Cut the list out of a text: return the object with an empty list, and where the list begins. It ends before `]}`, at
-- the end of the text. Nil if the text is not written that way.
local function cut(text, member)
    local opening = '"' .. member .. '":['
    local from, to = find(text, opening, 1, true)
    if not from or not find(text, "^[{%d]", to + 1) or not find(sub(text, -3), "^[}%d]%]}$") then
        return nil
    end
    local head = sub(text, 1, from - 1)
    local last = sub(head, -1)
    if (last ~= "{" and last ~= ",") or find(head, "\\", 1, true) or find(head, '"' .. member .. '"', 1, true) then
        return nil
    end
    return head .. opening .. "]}", to + 1
end


--- Tell whether a part of a list of objects has each boundary of two rows as `},{`, and no other `},{`. If there is no
-- white space, each boundary is one; then it is enough that there are no more.
-- @param rows in the part
local function is_regular(part, rows)
    local boundaries, at = 0, find(part, BETWEEN_OBJECTS, 1, true)
    while at do
        boundaries = boundaries + 1
        at = find(part, BETWEEN_OBJECTS, at + 1, true)
    end
    for i = 1, #part do
        if byte(part, i) <= SPACE then
            return false
        end
    end
    return boundaries == rows - 1
end


--- Decode a part of a list, and append its rows. Return their number, and whether the part is regular; nil if it is no
-- list of whole values.
local function append(rows, n, text, from, to)
    local part = sub(text, from, to)
    local decoded = _M.decode("[" .. part .. "]")
    if not decoded then
        return nil
    end
    table.move(decoded, 1, #decoded, n + 1, rows)
    return #decoded, is_regular(part, #decoded)
end


--- Return the rows of the list that begins at `from`, or nil; and whether the list is regular.
local function rows_of(text, from, breathe)
    local rows, n, last, regular = {}, 0, #text - 2, true
    local between = byte(text, from) == 123 and BETWEEN_OBJECTS or "%d,%d" -- 123: {
    while from <= last do
        local to = find(text, between, from + SLICE_BYTES) or last
        local more, part_is_regular = append(rows, n, text, from, to)
        if not more then
            return nil
        end
        n, from, regular = n + more, to + 2, regular and part_is_regular
        breathe()
    end
    return rows, regular
end


--- As rows_of, with AS_KNOWN for each row that is written as the one in its place in a known list. Rows between two
-- known ones are decoded together.
-- @param known the place of a regular list
local function changed_rows(text, from, known, breathe)
    local rows, n, last, regular = {}, 0, #text - 2, true
    local known_text, known_from, known_last = known.text, known.from, #known.text - 2
    local bytes, known_bytes = ffi.cast(bytes_of, text) - 1, ffi.cast(bytes_of, known_text) - 1
    local changed_from, changed, row = nil, 0, 0
    while from <= last do
        local to, known_to = find(text, BETWEEN_OBJECTS, from, true) or last, known_from - 2 -- behind the last: nothing
        if known_from <= known_last then
            known_to = find(known_text, BETWEEN_OBJECTS, known_from, true) or known_last
        end
        local length = to - from + 1
        local is_known = known_to - known_from + 1 == length
                         and ffi.C.memcmp(bytes + from, known_bytes + known_from, length) == 0
        if not is_known then
            changed_from, changed = changed_from or from, changed + 1
        end
        if changed > 0 and (is_known or to == last or to - changed_from >= SLICE_BYTES) then
            local more, part_is_regular = append(rows, n, text, changed_from, is_known and from - 2 or to)
            if more ~= changed then
                return nil
            end
            n, changed_from, changed, regular = n + more, nil, 0, regular and part_is_regular
            breathe()
        end
        if is_known then
            n = n + 1
            rows[n] = _M.AS_KNOWN
        end
        row, from, known_from = row + 1, to + 2, known_to + 2
        if row % ROWS_PER_BREATH == 0 then
            breathe()
        end
    end
    return rows, regular
end


--- Return the object with an empty list in place of its last member, and where that list begins in the text. Nil if the
-- text cannot be cut there (see decode_in_slices).
local function around(text, member)
    local shell, from = cut(text, member)
    local document = shell and _M.decode(shell)
    if document and type(document[member]) == "table" and next(document[member]) == nil then
        return document, from
    end
end


--- Return the object with an empty list in place of its last member, and the text in that list; nil as above.
function _M.decode_around(text, member)
    local document, from = around(text, member)
    if document then
        return document, sub(text, from, -3)
    end
end


--- Tell whether two lists are written alike. They are compared in place: copies of long ones would be garbage.
-- @param a, b a text each, and where its list begins
local function are_alike(a, b)
    local length = #a.text - 1 - a.from
    if length ~= #b.text - 1 - b.from then
        return false
    end
    local list, other = ffi.cast(bytes_of, a.text) + a.from - 1, ffi.cast(bytes_of, b.text) + b.from - 1
    return ffi.C.memcmp(list, other, length) == 0
end


--- Parse an object whose last member is a long list of objects or numbers, in slices; nil and the reason if it is not
-- JSON.
--
-- Decoding a megabyte of JSON takes tens of milliseconds, and the worker serves nothing meanwhile. So the text
--
--     {...,"peers":[{...},{...},...]}
--
-- is cut into the object with an empty list, and the list into pieces of about SLICE_BYTES, each after a row (a
-- number). Every part is decoded alone. The result is that of decoding the whole, by induction over the pieces:
--
--   * The head ends in { or , and has no backslash. So the quote before `peers` is not escaped. If it closed a string,
--     `peers` would be a bare word and the part no JSON. So it opens the name of a member, and the list is its value.
--   * The head holds no other "peers", and without backslashes there is no other way to write it. So if the decoded
--     object has the member, it is this one.
--   * A cut is at the comma of `},{` or `1,2`. If that is not between two rows of the list, it is in a string or a
--     nested value. The piece before it then has an open quote or bracket: no JSON. If the pieces before a cut are
--     lists of whole values, the cut is between two of them; and a comma between such lists makes one list.
--
-- A row that is written as in a known list is not decoded again: AS_KNOWN is in its place. The known list has to be
-- regular, so that each of its pieces between `},{` is a row. The pieces of the new list are then such rows, which are
-- whole values, and parts that are decoded as above.
--
-- If any of this fails, or the text is written in another way (by hand, over several lines), the whole is decoded at
-- once. That also finds the reason.
--
-- 10,000 peers take 25 to 50 ms in all, in slices of 0.05 to 0.5 ms. A step of LuaJIT's collector within a slice adds
-- 2 to 4 ms, about once in six tables.
--
-- @param member  the name of the list
-- @param breathe called between slices
-- @param known   the place of a list not to be decoded again if it is written alike, or nil
-- @return the object, and the place of its list: the text, where the list begins there (`from`), whether it is
--         written as `known` (`is_known`): the object's list is then left empty; and whether it is regular. Nil if the
--         text was decoded at once
function _M.decode_in_slices(text, member, breathe, known)
    local document, from = around(text, member)
    local place = document and { text = text, from = from, is_known = false }
    if document and known and are_alike(place, known) then
        place.is_known, place.is_regular = true, known.is_regular
        return document, place
    end
    local rows, regular
    if document and known and known.is_regular then
        rows, regular = changed_rows(text, from, known, breathe)
    end
    if document and not rows then
        rows, regular = rows_of(text, from, breathe)
    end
    if rows then
        document[member], place.is_regular = rows, regular
        return document, place
    end
    return _M.decode(text)
end


return _M
