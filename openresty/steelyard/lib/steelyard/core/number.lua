--- Numbers in input: from clients, servers, nginx's variables and files.
--
-- LuaJIT's tonumber() also takes nan, inf, 0x1f, 0b101 and blanks, and makes 1e999 infinite. A NaN passes each check of
-- the form `x > bound`, and a mean that has taken one never recovers. So input goes through decimal() or whole(), which
-- return a finite number within bounds, or nil. luacheck forbids tonumber() everywhere else.
--
-- `trusted` is tonumber() itself: for numbers that nginx or Steelyard has written, and for C numbers. Pure.

local find, tonumber, type = string.find, tonumber, type

-- Integers above MAX_EXACT are not exact in a double.
local _M = { trusted = tonumber, MAX_EXACT = 2 ^ 53 }


--- Return a decimal number within low..high, as "5", "-0.5" or "1e3"; nil for anything else.
-- @param value a text, or a number as JSON and Lua functions have it; of any type
-- @param low   the bounds are finite, so neither NaN nor an infinity is within them
function _M.decimal(value, low, high)
    local number = value
    if type(value) == "string" then
        number = tonumber(value)
    end
    if type(number) ~= "number" or not (number >= low and number <= high) then
        return nil
    end
    return (number == value or find(value, "^[%d.eE+-]+$")) and number or nil
end


--- Return a whole number within low..high that is written in digits alone, as in HTTP and in addresses; else nil.
-- @param text of any type
function _M.whole(text, low, high)
    local number = type(text) == "string" and find(text, "^%d+$") and tonumber(text)
    return number and number >= low and number <= high and number or nil
end


return _M
