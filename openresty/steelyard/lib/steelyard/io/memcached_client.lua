--- Get, set and append in the first Memcached server that answers.
--
-- For timers only. A call takes one connect and one round trip for each BATCH keys. A server that does not answer costs
-- TIMEOUT_MS (once in 3 s: io/backoff), and no server takes longer than DEADLINE_S. Failures are nil, err.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local deadline = require "steelyard.io.deadline"
local platform = require "steelyard.io.platform"

-- A Memcached that takes longer counts as away; fetches are half a second apart.
local TIMEOUT_MS = 300

-- For a server that drips its bytes. A thousand tables take about 0.05 s.
local DEADLINE_S = 1

-- A slow or distant server is read from for this long at a time.
local READ_FOR_S = 0.5

-- Keys in a request, and between two calls of breathe(): about 0.5 ms of work.
local BATCH = 50

local IDLE_MS, POOL = 30000, 2

-- The client would escape the colons of a key. Memcached takes them, and the controller writes them.
local function unchanged(key)
    return key
end

local OPTIONS = { key_transform = { unchanged, unchanged } }

local _M = {}


local function exchange(server, work)
    local client = platform.memcached:new(OPTIONS)
    client:set_timeout(TIMEOUT_MS)
    local ok, err = client:connect(server.host, server.port)
    if not ok then
        return nil, err
    end
    local value
    value, err = work(client)
    if value == nil then
        client:close()
        return nil, err
    end
    client:set_keepalive(IDLE_MS, POOL)
    return value
end


--- Do work(client) -> value, err with the first server at which it succeeds. Return the value and the server's name, or
-- nil and the errors of all servers.
local function with_any(servers, work)
    local failures = {}
    for i = 1, #servers do
        local server = servers[i]
        local value, err = backoff.attempt("memcached " .. server.name, function()
            return deadline.within(DEADLINE_S, exchange, server, work)
        end)
        if value ~= nil then
            return value, server.name
        end
        failures[i] = server.name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Read several keys over one connection. Return key -> text without the absent keys, the server's name, and how many
-- keys were asked for, from the first on: fewer than all if that takes long.
-- @param breathe called now and then; may yield
function _M.get_all(servers, keys, breathe)
    local asked
    local texts_by_key, server = with_any(servers, function(client)
        local texts, began = {}, clock.monotonic()
        asked = 0
        repeat
            local last = math.min(asked + BATCH, #keys)
            local items, err = client:get({ unpack(keys, asked + 1, last) })
            if not items then
                return nil, err
            end
            for key, item in pairs(items) do
                texts[key] = item[1]
            end
            asked = last
            breathe()
        until asked == #keys or clock.monotonic() - began > READ_FOR_S
        return texts
    end)
    return texts_by_key, server, asked
end


--- Write { key, value } pairs over one connection, each to live `ttl_s`. Return the pairs that the server refused, as
-- "key: why", and its name. A server that refuses all of them has failed.
-- @param breathe called now and then; may yield
function _M.set_all(servers, items, ttl_s, breathe)
    return with_any(servers, function(client)
        local refused, socket = {}, client.sock
        for first = 1, #items, BATCH do
            -- The client's `set` would wait for each answer: a round trip an upstream.
            local last, request = math.min(first + BATCH - 1, #items), {}
            for i = first, last do
                local key, value = items[i][1], items[i][2]
                request[#request + 1] = "set " .. key .. " 0 " .. ttl_s .. " " .. #value .. "\r\n" .. value .. "\r\n"
            end
            local sent, err = socket:send(request)
            if not sent then
                return nil, err
            end
            for i = first, last do
                local answer
                answer, err = socket:receive()
                if answer and string.find(answer, "^SERVER_ERROR ") then
                    refused[#refused + 1] = items[i][1] .. ": " .. answer -- this one is too large, or memory is short
                elseif answer ~= "STORED" then
                    return nil, answer or err
                end
            end
            breathe()
        end
        if refused[1] and #refused == #items then
            return nil, refused[1]
        end
        return refused
    end)
end


--- Append to the value of a key, or store it to live `ttl_s`. Return true, or nil and the reason.
function _M.append(servers, key, text, ttl_s)
    return with_any(servers, function(client)
        local ok, err = client:append(key, text)
        if not ok and err == "NOT_STORED" then
            ok, err = client:add(key, text, ttl_s)
        end
        -- Another load balancer stored it in between: the next report announces again.
        return ok or err == "NOT_STORED" or nil, err
    end)
end


return _M
