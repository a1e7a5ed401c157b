--- gRPC's health check: the request, and the meaning of the answer (grpc.health.v1.Health/Check). Pure.
--
-- A check is one call on a connection of its own, so it needs little of HTTP/2 (RFC 9113): one stream, and an answer
-- that fits every window. Headers are sent as literals without Huffman's code and without the dynamic table (RFC 7541,
-- 6.2.2). Headers of the answer are not decoded: the message alone decides, and a call without one failed. SETTINGS
-- and PING are not acknowledged, because the connection is over as soon as the message is there.
--
-- Not over TLS: that needs ALPN, which a cosocket of ngx_lua cannot offer.

local PREFACE = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

-- Kinds of frames, and flags.
local DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
local END_STREAM, END_HEADERS, PADDED = 0x1, 0x4, 0x8

local STREAM = 1

-- The default of SETTINGS_MAX_FRAME_SIZE, which our SETTINGS do not change.
local MAX_FRAME = 16384

local STATUSES = { [0] = "UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN" }

local _M = {}


local function be32(text, at)
    local a, b, c, d = string.byte(text, at, at + 3)
    return ((a * 256 + b) * 256 + c) * 256 + d
end


local function frame(kind, flags, stream, payload)
    return string.char(0, math.floor(#payload / 256), #payload % 256, kind, flags, 0, 0, 0, stream) .. payload
end


--- Encode a string of HPACK, of at most 254 bytes: so its length needs at most two.
local function literal(text)
    return (#text < 127 and string.char(#text) or string.char(127, #text - 127)) .. text
end


--- Return the bytes to send, all at once.
-- @param service   name of the service, "" for the server as a whole; at most 127 bytes
-- @param authority the host asked, as in HTTP/1.1's `Host`
function _M.request(service, authority)
    local block = {}
    for i, header in ipairs({
        { ":method", "POST" }, { ":scheme", "http" }, { ":path", "/grpc.health.v1.Health/Check" },
        { ":authority", authority }, { "content-type", "application/grpc" }, { "te", "trailers" },
        { "user-agent", "steelyard-check" },
    }) do
        block[i] = "\0" .. literal(header[1]) .. literal(header[2])
    end
    -- HealthCheckRequest: field 1, left out if it is empty.
    local message = service == "" and "" or "\10" .. string.char(#service) .. service
    return PREFACE .. frame(SETTINGS, 0, 0, "") .. frame(HEADERS, END_HEADERS, STREAM, table.concat(block))
           .. frame(DATA, END_STREAM, STREAM, "\0\0\0\0" .. string.char(#message) .. message)
end


--- Return the status in the data of a stream; nil while bytes are missing.
local function status_of(data)
    if #data < 5 then
        return nil
    elseif string.byte(data) ~= 0 then
        return nil, "an answer that is no message of gRPC, or a compressed one"
    elseif #data < 5 + be32(data, 2) then
        return nil
    end
    -- HealthCheckResponse: field 1, left out if it is 0.
    local status = string.match(string.sub(data, 6, 5 + be32(data, 2)), "^\8(.)")
    return STATUSES[status and string.byte(status) or 0] or "an unknown status"
end


--- Return the data in a DATA frame, without padding.
local function data_of(flags, payload)
    if flags % (2 * PADDED) < PADDED then
        return payload
    end
    return string.sub(payload, 2, -1 - (string.byte(payload) or 0))
end


--- Return the server's status: "SERVING", ...; nil and the reason if there is none, and nothing while bytes are
-- missing.
-- @param text all bytes received
function _M.judge(text)
    local at, data = 1, ""
    while #text >= at + 8 do
        local length, kind, flags = math.floor(be32(text, at) / 256), string.byte(text, at + 3, at + 4)
        if (at == 1 and kind ~= SETTINGS) or length > MAX_FRAME then
            return nil, "an answer that is not HTTP/2"
        elseif #text < at + 8 + length then
            return nil
        end
        local stream, payload = be32(text, at + 5) % 2 ^ 31, string.sub(text, at + 9, at + 8 + length)
        at = at + 9 + length
        if kind == GOAWAY and length >= 8 and be32(payload, 5) ~= 0 then
            return nil, "the server ended the connection (GOAWAY)"
        elseif stream == STREAM then
            data = data .. (kind == DATA and data_of(flags, payload) or "")
            local status, err = status_of(data)
            if status or err then
                return status, err
            elseif kind == RST_STREAM then
                return nil, "the server refused the call (RST_STREAM)"
            elseif (kind == DATA or kind == HEADERS) and flags % (2 * END_STREAM) >= END_STREAM then
                return nil, "a call that failed: the server has no grpc.health.v1.Health, or does not know the service"
            end
        end
    end
    return nil
end


return _M
