--- IP:port, the only form of address that a picker can use (it cannot resolve
-- names). Pure.

local _M = {}


--- The four octets of an IPv4 address, or nil.
function _M.ipv4(text)
    local octets = { string.match(text, "^(%d+)%.(%d+)%.(%d+)%.(%d+)$") }
    if #octets ~= 4 then
        return nil
    end
    for i = 1, 4 do
        local digits = octets[i]
        -- 010 is 8 to some readers and 10 to others: it is no address to us.
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


--- Split `10.0.0.11:80` or `[fd00::13]:80`.
-- @return ip as nginx takes it (IPv6 in brackets) and port; nil and what is wrong with the address otherwise
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
    if bracketed and _M.ipv6(bracketed) or not bracketed and _M.ipv4(host) then
        return host, port
    end
    local hint = string.find(host, ":", 1, true) and "put an IPv6 address in brackets" or "names are not resolved here"
    return nil, text .. " does not begin with an IP address (" .. hint .. ")"
end


return _M
