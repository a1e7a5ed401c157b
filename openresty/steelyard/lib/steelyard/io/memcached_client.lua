--- Get, set and append in the first Memcached server that answers.
--
-- For timers only: a call takes as long as a connect and a round trip for each BATCH keys, or
-- TIMEOUT_MS for a server that does not answer (io/backoff: once in 3 s), and never longer
-- than DEADLINE_S a server. Failures are nil, err.

local backoff = require "steelyard.io.backoff"
local clock = require "steelyard.io.clock"
local platform = require "steelyard.io.platform"

-- A Memcached that takes longer is away; fetches are half a second apart.
local TIMEOUT_MS = 300

-- Each byte that comes begins the time-out anew, so a server that drips them needs a bound of its own. A thousand
-- tables take some 0.05 s.
local DEADLINE_S = 1

-- One that is only slow, or far away, is read from for so long at a time.
local READ_FOR_S = 0.5

-- Keys in a request, and between two breaths: some 0.5 ms of work.
local BATCH = 50

local IDLE_MS, POOL = 30000, 2

-- Keys hold only characters that Memcached takes as they are, and the
-- controller writes them so; the client would escape the colons.
local function as_it_is(key)
    return key
end

local OPTIONS = { key_transform = { as_it_is, as_it_is } }

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


local function deadline()
    ngx.sleep(DEADLINE_S)
    return nil, "no whole answer within " .. DEADLINE_S .. " s"
end


local function attempt(server, work)
    local exchanging, waiting = ngx.thread.spawn(exchange, server, work), ngx.thread.spawn(deadline)
    local ok, value, err = ngx.thread.wait(exchanging, waiting)
    ngx.thread.kill(waiting)
    ngx.thread.kill(exchanging) -- and nginx closes its connection
    if not ok then
        error(value, 0)
    end
    return value, err
end


--- Do work(client) -> value, err with the first server that lets it succeed;
-- the value and the server's name, or nil and what each of them said.
local function with_any(servers, work)
    local failures = {}
    for i = 1, #servers do
        local server = servers[i]
        local value, err = backoff.attempt("memcached " .. server.name, function()
            return attempt(server, work)
        end)
        if value ~= nil then
            return value, server.name
        end
        failures[i] = server.name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Read several keys over one connection: key -> text, absent keys left out; the name of the server that had
-- them; and how many of the keys were asked for, the first ones: fewer than all when that takes long.
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


--- Write { key, value } pairs over one connection, each to live `ttl_s`: what the server did not take, "key: why"
-- each (the others it has), and its name. One that takes nothing has failed.
-- @param breathe called now and then; may yield
function _M.set_all(servers, items, ttl_s, breathe)
    return with_any(servers, function(client)
        local refused, socket = {}, client.sock
        for first = 1, #items, BATCH do
            -- The client waits for each answer before it sends the next: a round trip an upstream.
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
                    refused[#refused + 1] = items[i][1] .. ": " .. answer -- too large, or no memory: of this one
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


--- Append to what is under a key, or store it to live `ttl_s`: true, or nil and why not.
function _M.append(servers, key, text, ttl_s)
    return with_any(servers, function(client)
        local ok, err = client:append(key, text)
        if not ok and err == "NOT_STORED" then
            ok, err = client:add(key, text, ttl_s)
        end
        -- Somebody stored it in between: the next report announces again.
        return ok or err == "NOT_STORED" or nil, err
    end)
end


return _M
