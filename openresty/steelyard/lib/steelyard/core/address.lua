--- IP addresses: IP:port, the only form for a picker (it cannot resolve names), and networks (CIDR) of the pages'
-- readers. Pure.
--
-- One address has many spellings, and is compared by nginx's own, in $upstream_addr. In docs/contract/addresses.json
-- are examples for this file and for peer_address.py, which writes the addresses of weight tables.

local ffi = require "ffi"
local number = require "steelyard.core.number"

ffi.cdef "int inet_pton(int family, const char *text, void *bytes);"

-- Linux's numbers.
local AF_INET, AF_INET6 = 2, 10

local MAPPED = string.rep("\0", 10) .. "\255\255" -- the start of IPv4 within IPv6

local LOOPBACK = { "127.0.0.0/8", "::1" }

local _M = {}


--- Return the bytes of an IP address, most significant first, and their number: 4, or 16 for IPv6 (RFC 4291, no zone);
-- nil if it is none. 010 is refused: some readers take it for 8, others for 10.
local function bytes_of(text)
    local is_ipv6, bytes = string.find(text, ":", 1, true) ~= nil, ffi.new("uint8_t[16]")
    -- C would stop at a zero byte.
    if string.find(text, "%z") or ffi.C.inet_pton(is_ipv6 and AF_INET6 or AF_INET, text, bytes) ~= 1 then
        return nil
    end
    return bytes, is_ipv6 and 16 or 4
end


--- Return the text of an IPv6 address as nginx writes it in $upstream_addr. It is in lower case, with the first longest
-- run of at least two zero groups as "::". It ends in an IPv4 address if the run is all but the last two groups, or
-- all but three, the first of them ffff.
local function ipv6_text(bytes)
    local groups, first, longest, run = {}, nil, 1, 0
    for i = 1, 8 do
        groups[i] = bytes[2 * i - 2] * 256 + bytes[2 * i - 1]
        run = groups[i] == 0 and run + 1 or 0
        if run > longest then
            first, longest = i - run + 1, run
        end
    end
    local as_ipv4 = first == 1 and (
        longest == 5 and groups[6] == 0xffff or longest == 6
        -- nginx's own condition: by it, ::1 is no IPv4 address, and neither is ::n below 256.
        or longest == 7 and bytes[14] > 0 and bytes[15] ~= 1)
    local text, i = "", 1
    while i <= (as_ipv4 and 6 or 8) do
        if i == first then
            text, i = text .. "::", i + longest
        else
            local separated = text == "" or string.sub(text, -1) == ":"
            text, i = string.format("%s%s%x", text, separated and "" or ":", groups[i]), i + 1
        end
    end
    if not as_ipv4 then
        return text
    end
    return string.format("%s%s%d.%d.%d.%d", text, string.sub(text, -1) == ":" and "" or ":",
                         bytes[12], bytes[13], bytes[14], bytes[15])
end


--- Return the text of the IPv4 address within an IPv6 one (::ffff:10.0.0.11), or nil. A connection to either is one to
-- the same server, by IPv4.
local function mapped_ipv4(bytes)
    return ffi.string(bytes, 12) == MAPPED
           and string.format("%d.%d.%d.%d", bytes[12], bytes[13], bytes[14], bytes[15]) or nil
end


--- Split `10.0.0.11:80` or `[fd00::13]:80`.
-- @return ip as nginx writes it (IPv6 in brackets) and port; or nil and the problem with the address
function _M.split(text)
    local host, port_text = string.match(text, "^(.*):([^:]*)$")
    if not host then
        return nil, text .. " has no port: write it as 10.0.0.11:80 or [fd00::13]:80"
    end
    local port = #port_text <= 5 and number.whole(port_text, 1, 65535)
    if not port then
        return nil, "the port of " .. text .. " is not a number within 1..65535"
    end
    local bracketed = string.match(host, "^%[(.*)%]$")
    local bytes, count = bytes_of(bracketed or host)
    if bracketed and count == 16 then
        return mapped_ipv4(bytes) or "[" .. ipv6_text(bytes) .. "]", port
    elseif not bracketed and count == 4 then
        return host, port
    end
    local hint = string.find(host, ":", 1, true) and "put an IPv6 address in brackets" or "names are not resolved here"
    return nil, text .. " does not begin with an IP address (" .. hint .. ")"
end


--- Return an address as `split` does, in one text; nil if it is none.
function _M.canonical(text)
    local ip, port = _M.split(text)
    return ip and ip .. ":" .. port
end


--- Make a key of one end of a connection: two bytes of its port, then its address. IPv4 within IPv6 is IPv4.
function _M.key(port, bytes, count)
    if count == 16 and ffi.string(bytes, 12) == MAPPED then
        bytes, count = bytes + 12, 4
    end
    return port .. ffi.string(bytes, count)
end


--- Return the key of an address, with or without brackets, and a port; nil if it is no IP address.
function _M.key_of(ip, port)
    local bytes, count = bytes_of(string.match(ip, "^%[(.*)%]$") or ip)
    return bytes and _M.key(string.char(math.floor(port / 256), port % 256), bytes, count)
end


--- Parse a network, `10.0.0.0/8` or `::1`: { bytes, count, bits }, or nil.
function _M.network(text)
    local ip, bits = string.match(text, "^([^/]+)/(%d+)$")
    local bytes, count = bytes_of(ip or text)
    bits = bytes and (not bits and count * 8 or number.whole(bits, 0, count * 8))
    if not bits then
        return nil
    end
    return { bytes = bytes, count = count, bits = bits }
end


local function within(bytes, count, network)
    if count ~= network.count then
        return false
    end
    for i = 0, math.ceil(network.bits / 8) - 1 do
        local unit = 2 ^ math.max(0, 8 * (i + 1) - network.bits) -- in the last byte only the leading bits may count
        if math.floor(bytes[i] / unit) ~= math.floor(network.bytes[i] / unit) then
            return false
        end
    end
    return true
end


local function within_any(bytes, count, networks)
    for i = 1, #networks do
        if within(bytes, count, _M.network(networks[i])) then
            return true
        end
    end
    return false
end


--- Tell whether a client may read the pages: from loopback, and from the networks in `extra`, a list of texts. A
-- request through a proxy may be from anyone, even with the proxy on this machine: for it `extra` alone counts.
function _M.allows(client, extra, proxied)
    if string.find(client, "^unix:") then
        return not proxied -- a socket's own permissions decided already
    end
    -- A listener for both families names an IPv4 client like this.
    local bytes, count = bytes_of(string.match(client, "^::ffff:(%d+%.%d+%.%d+%.%d+)$") or client)
    if not bytes then
        return false
    end
    return within_any(bytes, count, extra) or not proxied and within_any(bytes, count, LOOPBACK)
end


return _M
