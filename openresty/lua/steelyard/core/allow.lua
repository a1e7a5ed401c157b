--- Who may read the pages about the data plane: loopback, and a list of addresses
-- or CIDR. Pure.

local address = require "steelyard.core.address"

local LOOPBACK = { "127.0.0.0/8", "::1" }

local _M = {}


--- The bytes of an IP address, most significant first, or nil.
local function bytes_of(text)
    local octets = address.ipv4(text)
    if octets then
        return octets
    end
    local groups = address.ipv6(text)
    if not groups then
        return nil
    end
    local bytes = {}
    for i = 1, 8 do
        bytes[2 * i - 1] = math.floor(groups[i] / 256)
        bytes[2 * i] = groups[i] % 256
    end
    return bytes
end


--- Parse `10.0.0.0/8`, `::1` or the like: { bytes, bits }, or nil.
function _M.block(text)
    local ip, bits = string.match(text, "^([^/]+)/(%d+)$")
    local bytes = bytes_of(ip or text)
    bits = bytes and (tonumber(bits) or #bytes * 8)
    if not bytes or bits > #bytes * 8 then
        return nil
    end
    return { bytes = bytes, bits = bits }
end


local function within(bytes, block)
    if #bytes ~= #block.bytes then
        return false
    end
    local whole = math.floor(block.bits / 8)
    for i = 1, whole do
        if bytes[i] ~= block.bytes[i] then
            return false
        end
    end
    local rest = block.bits % 8
    local unit = 2 ^ (8 - rest)
    return rest == 0 or math.floor(bytes[whole + 1] / unit) == math.floor(block.bytes[whole + 1] / unit)
end


--- Tell whether a client may; `extra` is a list of blocks as text. What came through a proxy may be anybody's, though
-- the proxy is on this machine: then `extra` alone counts.
function _M.allows(client, extra, proxied)
    if string.find(client, "^unix:") then
        return not proxied -- a socket's own permissions decided already
    end
    -- How a listener for both families names an IPv4 client.
    local bytes = bytes_of(string.match(client, "^::ffff:(%d+%.%d+%.%d+%.%d+)$") or client)
    for _, list in ipairs({ extra, not proxied and LOOPBACK or nil }) do
        for i = 1, bytes and #list or 0 do
            if within(bytes, _M.block(list[i])) then
                return true
            end
        end
    end
    return false
end


return _M
