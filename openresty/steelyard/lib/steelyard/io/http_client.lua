--- One small request over a cosocket, for timers: health checks, and the controller's API.
--
-- `get` asks in HTTP/1.0, so the body ends by its length or with the connection, and never comes in chunks. `ask`
-- sends any request and reads until its caller can judge the answer.
--
-- Never raises, because the other end may be broken or hostile: the result is an answer, or nil and the reason.
-- `timeout_ms` bounds connect, TLS, send and read together, so a server that drips its bytes gains nothing. Memory is
-- bounded by MAX_HEAD + CHUNK + `max_bytes`.
--
-- nginx logs each failed connect and handshake by itself unless `lua_socket_log_errors off;`.

local clock = require "steelyard.io.clock"
local http_message = require "steelyard.core.http_message"

-- Several times the size of any answer of a status page, or of our API.
local MAX_HEAD = 8192
local MAX_BODY = 65536

-- Bytes read at a time.
local CHUNK = 8192

local _M = {}


--- Make a function that calls a method of the connection, within the time that earlier calls have left.
local function stepper(connection, left_ms)
    local before = clock.now()
    return function(method, ...)
        local now = clock.now()
        left_ms = left_ms - (now - before) * 1000
        before = now
        if left_ms < 1 then
            return nil, "timeout"
        end
        connection:settimeout(left_ms)
        return connection[method](connection, ...)
    end
end


--- Read until `judge` decides. Return its value, or nil and the reason.
-- @param judge text -> value, or nil and the reason, or nothing while bytes are missing
local function read_until(step, judge)
    local text = ""
    while true do
        local value, more = judge(text)
        if value ~= nil or more then
            return value, more
        elseif #text > MAX_HEAD then
            return nil, "more than " .. MAX_HEAD .. " bytes of headers"
        end
        local chunk, err = step("receiveany", CHUNK)
        if not chunk then
            return nil, err == "closed" and "closed without an answer" or err
        end
        text = text .. chunk
    end
end


--- Read the body; its first bytes came with the head.
local function read_body(step, answer, target)
    local length, bad = http_message.length(answer)
    if bad then
        return nil, bad
    end
    local most, chunks, size = target.max_bytes or MAX_BODY, { answer.begun }, #answer.begun
    while size < (length or 1 / 0) and size <= most do
        local chunk, err = step("receiveany", CHUNK)
        if not chunk then
            if err == "closed" and not length then
                break
            end
            return nil, err == "closed" and "closed in the middle of the body" or err
        end
        chunks[#chunks + 1], size = chunk, size + #chunk
    end
    if (length or size) > most then
        return nil, "more than " .. most .. " bytes of body"
    end
    return string.sub(table.concat(chunks), 1, length or size)
end


--- Connect and send; nil and the reason if the other end does not take the request.
local function send(step, target, request)
    local ok, err = step("connect", target.host, target.port)
    if ok and target.tls then
        ok, err = step("sslhandshake", false, target.tls.server_name, target.tls.verify)
        err = ok and err or "TLS: " .. tostring(err)
    end
    if not ok then
        return nil, err
    end
    return step("send", request)
end


local function exchange(target, request, receive)
    local connection = ngx.socket.tcp()
    local step = stepper(connection, target.timeout_ms)
    local answer, err = send(step, target, request)
    if answer then
        answer, err = receive(step)
    end
    connection:close()
    return answer, err
end


--- GET a whole answer.
-- @param target host (IPv6 in brackets), port, path, timeout_ms; optional: headers (`Host` is host:port by default)
--   and max_bytes of body
-- @return { status, headers by lower-case name, body }; nil and the reason
function _M.get(target)
    return exchange(target, http_message.request(target, "1.0"), function(step)
        local answer, err = read_until(step, http_message.head)
        if answer then
            answer.body, err = read_body(step, answer, target)
        end
        return answer and answer.body and answer, err
    end)
end


--- Send any request, and read no more of the answer than `judge` needs.
-- @param target host (IPv6 in brackets), port, timeout_ms; and for TLS `tls`: { server_name, verify }, where
--   server_name is for SNI and, if `verify`, the name in the certificate; the CA has to be in
--   `lua_ssl_trusted_certificate` of http {}
-- @param judge  the text so far -> value, or nil and the reason, or nothing while bytes are missing
-- @return the value; nil and the reason
function _M.ask(target, request, judge)
    return exchange(target, request, function(step)
        return read_until(step, judge)
    end)
end


return _M
