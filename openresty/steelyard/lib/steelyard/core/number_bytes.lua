--- Numbers in the bytes that nginx writes for a variable, read in place: a string for each would be garbage.
--
-- nginx writes lists of tries ("200, 200", "- : -"), too. Their lengths or separators distinguish them from one number,
-- so digits are not checked. Pure: bytes (a pointer, or an array) and their number come in.

local DOT, ZERO = 46, 48

local _M = {}


--- Return one status; nil for a list, "-" or no bytes.
function _M.status(bytes, length)
    if length ~= 3 then
        return nil
    end
    return 100 * bytes[0] + 10 * bytes[1] + bytes[2] - 111 * ZERO
end


--- Return the milliseconds of one time under ten seconds, "0.012"; nil for anything else.
function _M.milliseconds(bytes, length)
    if length ~= 5 or bytes[1] ~= DOT then
        return nil
    end
    return 1000 * bytes[0] + 100 * bytes[2] + 10 * bytes[3] + bytes[4] - 1111 * ZERO
end


return _M
