--- HTTP/1: write a request, and read its answer (RFC 9112). Pure.
--
-- Reading is total, because the other end may be broken or hostile: it returns a value, or nil and the reason, or
-- nothing while bytes are missing.

local number = require "steelyard.core.number"

local NOT_HTTP = "an answer that is not HTTP"

local _M = {}


--- Write a GET that ends its connection.
-- @param target  host (IPv6 in brackets), port, path, and headers if need be (`Host` is host:port otherwise)
-- @param version "1.0" if the answer must have a length or end with the connection, else "1.1"
function _M.request(target, version)
    local headers, lines = target.headers or {}, {}
    if not string.find(target.path, "^/[^%c ]*$") then
        error("http_message.request: `" .. tostring(target.path) .. "` is no path")
    end
    lines[1] = "GET " .. target.path .. " HTTP/" .. version
    lines[2] = "Host: " .. (headers.Host or target.host .. ":" .. target.port)
    lines[3] = "Connection: close"
    for name, value in pairs(headers) do
        if name ~= "Host" then
            lines[#lines + 1] = name .. ": " .. value
        end
    end
    for i = 1, #lines do
        if string.find(lines[i], "%c") then
            error("http_message.request: a control character in a header")
        end
    end
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end


--- Tell whether a text cannot become an HTTP answer with any continuation.
local function is_other(text)
    local begun = string.sub(text, 1, 5)
    return begun ~= string.sub("HTTP/", 1, #begun)
end


--- Return the status in a whole status line, and the text behind the line; nil if it is none.
local function status_line(text)
    local status, rest = string.match(text, "^HTTP/1%.[01] ([1-5]%d%d)%f[^%d][^\r\n]*\r?\n(.*)$")
    return number.whole(status, 100, 599), rest
end


--- Return the status of an answer as soon as its status line is there; its headers and body do not matter. Interim
-- answers are skipped (RFC 9110, 15.2); 101 is final.
-- @param text all bytes received
function _M.status(text)
    while true do
        if is_other(text) then
            return nil, NOT_HTTP
        elseif not string.find(text, "\n", 1, true) then
            return nil
        end
        local status = status_line(text)
        if not status then
            return nil, NOT_HTTP
        elseif status >= 200 or status == 101 then
            return status
        end
        local _, head_end = string.find(text, "\r?\n\r?\n")
        if not head_end then
            return nil
        end
        text = string.sub(text, head_end + 1)
    end
end


--- Parse the head of an answer to HTTP/1.0: { status, headers by lower-case name, begun }. `begun` is the part of the
-- body received so far.
-- @param text all bytes received
function _M.head(text)
    local _, head_end = string.find(text, "\r?\n\r?\n")
    if not head_end then
        return nil, is_other(text) and NOT_HTTP or nil
    end
    local status, rest = status_line(string.sub(text, 1, head_end))
    if not status or status < 200 then
        return nil, NOT_HTTP
    end
    local headers = {}
    for line in string.gmatch(rest, "([^\r\n]+)") do
        local name, value = string.match(line, "^([^%s:]+):[ \t]*(.-)[ \t]*$")
        if not name then
            return nil, "a header line without a name"
        end
        name = string.lower(name)
        headers[name] = headers[name] and headers[name] .. ", " .. value or value
    end
    return { status = status, headers = headers, begun = string.sub(text, head_end + 1) }
end


--- Return the length of the body of an answer to HTTP/1.0; nil: until the connection ends; nil and a reason.
function _M.length(answer)
    local text = answer.headers["content-length"]
    local length = number.whole(text, 0, number.MAX_EXACT)
    if answer.status == 204 or answer.status == 304 then
        return 0
    elseif answer.headers["transfer-encoding"] then
        return nil, "a Transfer-Encoding, which HTTP/1.0 has not"
    elseif text and not length then
        return nil, "a Content-Length that is no number"
    end
    return length
end


return _M
