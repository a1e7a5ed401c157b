--- IP addresses: IP:port, the only form that a picker can use (it cannot resolve
-- names), and networks (CIDR), for who may read the pages about the data plane. Pure.

local LOOPBACK = { "127.0.0.0/8", "::1" }

local _M = {}


--- The four octets of an IPv4 address, or nil.
function _M.ipv4(text)
    local octets = { string.match(text, "^(%d+)%.(%d+)%.(%d+)%.(%d+)$") }
    if #octets ~= 4 then
        return nil
    end
    for i = 1, 4 do
        local digits = octets[i]
        -- Some readers take 010 for 8, others for 10: it is refused.
        if #digits > 3 or tonumber(digits) > 255 or (#digits > 1 and string.byte(digits) == 48) then
            return nil
        end
        octets[i] = tonumber(digits)
    end
    return octets
end


--- The groups of one side of a "::", or nil; `tail` may end in an IPv4 address.
local function groups_of(text, tail)
    local groups = {}
    if text == "" then
        return groups
    end
    local pieces = {}
    for piece in string.gmatch(text .. ":", "([^:]*):") do
        pieces[#pieces + 1] = piece
    end
    for i = 1, #pieces do
        local octets = tail and i == #pieces and _M.ipv4(pieces[i])
        if octets then
            groups[#groups + 1] = octets[1] * 256 + octets[2]
            groups[#groups + 1] = octets[3] * 256 + octets[4]
        elseif string.find(pieces[i], "^%x%x?%x?%x?$") then
            groups[#groups + 1] = tonumber(pieces[i], 16)
        else
            return nil
        end
    end
    return groups
end


--- The eight groups of an IPv6 address (RFC 4291, no zone), or nil.
function _M.ipv6(text)
    local left, right = string.match(text, "^(.-)::(.*)$")
    if not left then
        local groups = groups_of(text, true)
        return groups and #groups == 8 and groups or nil
    end
    local head, tail = groups_of(left, false), groups_of(right, true)
    if not head or not tail or #head + #tail > 7 then
        return nil
    end
    local groups = {}
    for i = 1, 8 do
        groups[i] = head[i] or tail[i - 8 + #tail] or 0
    end
    return groups
end


--- The text of an IPv6 address as nginx writes it in $upstream_addr: lower case, the first longest run of two zero
-- groups or more as "::", and an IPv4 address at the end where that run is all but the last two groups (or three, of
-- which the first is ffff).
local function ipv6_text(groups)
    local first, longest, run = nil, 1, 0
    for i = 1, 8 do
        run = groups[i] == 0 and run + 1 or 0
        if run > longest then
            first, longest = i - run + 1, run
        end
    end
    local as_ipv4 = first == 1 and (
        longest == 5 and groups[6] == 0xffff or longest == 6
        -- nginx's own condition, by which ::1 is no IPv4 address, nor is ::n below 256.
        or longest == 7 and groups[8] >= 256 and groups[8] % 256 ~= 1)
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
    local high, low = groups[7], groups[8]
    return string.format("%s%s%d.%d.%d.%d", text, string.sub(text, -1) == ":" and "" or ":",
                         math.floor(high / 256), high % 256, math.floor(low / 256), low % 256)
end


--- Split `10.0.0.11:80` or `[fd00::13]:80`.
-- @return ip as nginx writes it (IPv6 in brackets) and port; nil and what is wrong with the address otherwise
function _M.split(text)
    local host, port_text = string.match(text, "^(.*):([^:]*)$")
    if not host then
        return nil, text .. " has no port: write it as 10.0.0.11:80 or [fd00::13]:80"
    end
    local port = string.find(port_text, "^%d%d?%d?%d?%d?$") and tonumber(port_text)
    if not port or port < 1 or port > 65535 then
        return nil, "the port of " .. text .. " is not a number within 1..65535"
    end
    local bracketed = string.match(host, "^%[(.*)%]$")
    local groups = bracketed and _M.ipv6(bracketed)
    if groups then
        return "[" .. ipv6_text(groups) .. "]", port
    elseif not bracketed and _M.ipv4(host) then
        return host, port
    end
    local hint = string.find(host, ":", 1, true) and "put an IPv6 address in brackets" or "names are not resolved here"
    return nil, text .. " does not begin with an IP address (" .. hint .. ")"
end


--- The bytes of an IP address, most significant first, or nil.
local function bytes_of(text)
    local octets = _M.ipv4(text)
    if octets then
        return octets
    end
    local groups = _M.ipv6(text)
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


--- Parse a network, `10.0.0.0/8` or `::1`: { bytes, bits }, or nil.
function _M.network(text)
    local ip, bits = string.match(text, "^([^/]+)/(%d+)$")
    local bytes = bytes_of(ip or text)
    bits = bytes and (tonumber(bits) or #bytes * 8)
    if not bytes or bits > #bytes * 8 then
        return nil
    end
    return { bytes = bytes, bits = bits }
end


local function within(bytes, network)
    if #bytes ~= #network.bytes then
        return false
    end
    local whole = math.floor(network.bits / 8)
    for i = 1, whole do
        if bytes[i] ~= network.bytes[i] then
            return false
        end
    end
    local rest = network.bits % 8
    local unit = 2 ^ (8 - rest)
    return rest == 0 or math.floor(bytes[whole + 1] / unit) == math.floor(network.bytes[whole + 1] / unit)
end


--- Tell whether a client may read the pages: from loopback, and from the networks in `extra`, a list of texts. A
-- request that came through a proxy may be anybody's, even if the proxy is on this machine: there `extra` alone counts.
function _M.allows(client, extra, proxied)
    if string.find(client, "^unix:") then
        return not proxied -- a socket's own permissions decided already
    end
    -- How a listener for both families names an IPv4 client.
    local bytes = bytes_of(string.match(client, "^::ffff:(%d+%.%d+%.%d+%.%d+)$") or client)
    for _, list in ipairs({ extra, not proxied and LOOPBACK or nil }) do
        for i = 1, bytes and #list or 0 do
            if within(bytes, _M.network(list[i])) then
                return true
            end
        end
    end
    return false
end


return _M
