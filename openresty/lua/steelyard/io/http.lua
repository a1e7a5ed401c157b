--- One small HTTP GET over a cosocket, for timers: health checks, and the controller's API.
--
-- It asks in HTTP/1.0 with `Connection: close`, so the body ends by its length
-- or with the connection, and never comes in chunks. Total, because the other
-- end may be broken or hostile: whatever comes gives an answer or nil and the
-- reason, within `timeout_ms` over everything (a server that drips its bytes
-- gains nothing) and within MAX_HEAD + `max_bytes` of memory.
--
-- nginx logs each failed connect by itself unless `lua_socket_log_errors off;`.

-- Several times what any status page or API of ours sends.
local MAX_HEAD = 8192
local MAX_BODY = 65536

-- Read at most so much at a time.
local CHUNK = 8192

local _M = {}


--- What is left of a number of milliseconds, less at each call. Steps of the
-- clock only: set back, it gives one step for free and not an hour.
local function countdown(total_ms)
    local left_ms, before = total_ms, ngx.now()
    return function()
        local now = ngx.now()
        left_ms = left_ms - math.max(0, now - before) * 1000
        before = now
        return left_ms
    end
end


local function request_of(target)
    local headers, lines = target.headers or {}, {}
    if not string.find(target.path, "^/[^%c ]*$") then
        error("http.get: `" .. tostring(target.path) .. "` is no path")
    end
    lines[1] = "GET " .. target.path .. " HTTP/1.0"
    lines[2] = "Host: " .. (headers.Host or target.host .. ":" .. target.port)
    lines[3] = "Connection: close"
    for name, value in pairs(headers) do
        if name ~= "Host" then
            lines[#lines + 1] = name .. ": " .. value
        end
    end
    for i = 1, #lines do
        if string.find(lines[i], "%c") then
            error("http.get: a control character in a header")
        end
    end
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end


--- Read what has come; nil and the reason when nothing more does ("closed": the end).
local function read(connection, left_ms)
    local wait_ms = left_ms()
    if wait_ms < 1 then
        return nil, "timeout"
    end
    connection:settimeout(wait_ms)
    return connection:receiveany(CHUNK)
end


--- The status line and the headers, and what came of the body with them.
local function read_head(connection, left_ms)
    local text = ""
    while true do
        local _, head_end = string.find(text, "\r?\n\r?\n")
        if head_end and head_end <= MAX_HEAD then
            return string.sub(text, 1, head_end), string.sub(text, head_end + 1)
        elseif #text > MAX_HEAD then
            return nil, "more than " .. MAX_HEAD .. " bytes of headers"
        elseif #text >= 5 and string.sub(text, 1, 5) ~= "HTTP/" then
            return nil, "an answer that is not HTTP"
        end
        local chunk, err = read(connection, left_ms)
        if not chunk then
            return nil, err == "closed" and "closed without an answer" or err
        end
        text = text .. chunk
    end
end


--- Parse a head: the status, and headers by lower-case name.
local function parse(head)
    local status, rest = string.match(head, "^HTTP/1%.[01] ([2-5]%d%d)[^%d\r\n][^\r\n]*\r?\n(.*)$")
    if not status then
        status, rest = string.match(head, "^HTTP/1%.[01] ([2-5]%d%d)\r?\n(.*)$")
    end
    if not status then
        return nil, "an answer that is not HTTP"
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
    return { status = tonumber(status), headers = headers }
end


--- How long the body is to be; nil: until the connection ends; nil and the reason.
local function length_of(answer)
    local length = answer.headers["content-length"]
    if answer.status == 204 or answer.status == 304 then
        return 0
    elseif answer.headers["transfer-encoding"] then
        return nil, "a Transfer-Encoding, which HTTP/1.0 has not"
    elseif length and not string.find(length, "^%d+$") then
        return nil, "a Content-Length that is no number"
    end
    return tonumber(length)
end


--- Read the body, of which `begun` came already.
local function read_body(connection, answer, begun, target, left_ms)
    local length, bad = length_of(answer)
    if bad then
        return nil, bad
    end
    local most, chunks, size = target.max_bytes or MAX_BODY, { begun }, #begun
    while size < (length or 1 / 0) and size <= most do
        local chunk, err = read(connection, left_ms)
        if not chunk then
            if err == "closed" and not length then
                break
            end
            return nil, err == "closed" and "closed in the middle of the body" or err
        end
        chunks[#chunks + 1], size = chunk, size + #chunk
    end
    if (length or size) > most and not target.cut then
        return nil, "more than " .. most .. " bytes of body"
    end
    return string.sub(table.concat(chunks), 1, math.min(length or size, most))
end


local function exchange(connection, target, request, left_ms)
    connection:settimeout(target.timeout_ms)
    local ok, err = connection:connect(target.host, target.port)
    if not ok then
        return nil, err
    end
    connection:settimeout(math.max(1, left_ms()))
    ok, err = connection:send(request)
    if not ok then
        return nil, err
    end
    local head, begun = read_head(connection, left_ms)
    if not head then
        return nil, begun
    end
    local answer
    answer, err = parse(head)
    if not answer then
        return nil, err
    end
    answer.body, err = read_body(connection, answer, begun, target, left_ms)
    if not answer.body then
        return nil, err
    end
    return answer
end


--- Ask once.
-- @param target host (IPv6 in brackets), port, path, timeout_ms; and if need be
--   headers (`Host` is host:port otherwise), max_bytes of body, and `cut`: a
--   longer body is cut there and not an error
-- @return { status, headers by lower-case name, body }; nil and the reason
function _M.get(target)
    local request = request_of(target)
    local connection = ngx.socket.tcp()
    local answer, err = exchange(connection, target, request, countdown(target.timeout_ms))
    connection:close()
    return answer, err
end


return _M
