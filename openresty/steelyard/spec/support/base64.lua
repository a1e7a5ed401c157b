--- Base64 as ngx.decode_base64 reads it, for specs: padding may be left out.

local bit = require "bit"

local byte, char = string.byte, string.char
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
local SEXTETS = {}
for i = 1, #ALPHABET do
    SEXTETS[byte(ALPHABET, i)] = i - 1
end

local _M = {}


--- Return the bytes of a text; nil if it is no Base64.
function _M.decode(text)
    text = string.gsub(text, "=?=$", "")
    local parts, bits, held = {}, 0, 0
    for i = 1, #text do
        local sextet = SEXTETS[byte(text, i)]
        if not sextet then
            return nil
        end
        held, bits = bor(lshift(band(held, 0xff), 6), sextet), bits + 6
        if bits >= 8 then
            bits = bits - 8
            parts[#parts + 1] = char(band(rshift(held, bits), 0xff))
        end
    end
    return bits < 6 and table.concat(parts) or nil
end


return _M
