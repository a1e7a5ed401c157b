--- Get and set in the first Memcached server that answers.
--
-- For timers only: a call takes as long as a connect and a round trip, or
-- TIMEOUT_MS for each server that is away. World failure is nil, err.

local platform = require "steelyard.io.platform"

-- A Memcached that takes longer is away; fetches are half a second apart.
local TIMEOUT_MS = 300

local IDLE_MS, POOL = 30000, 2

-- Keys hold only characters that Memcached takes as they are, and the
-- controller writes them so; the client would escape the colons.
local function as_it_is(key)
    return key
end

local OPTIONS = { key_transform = { as_it_is, as_it_is } }

local _M = {}


local function attempt(server, work)
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


--- Do work(client) -> value, err with the first server that lets it succeed.
local function with_any(servers, work)
    local failures = {}
    for i = 1, #servers do
        local value, err = attempt(servers[i], work)
        if value ~= nil then
            return value
        end
        failures[i] = servers[i].name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Read several keys over one connection: key -> text, absent keys left out.
function _M.get_all(servers, keys)
    return with_any(servers, function(client)
        local found = {}
        for i = 1, #keys do
            local value, _, err = client:get(keys[i])
            if err then
                return nil, err
            end
            found[keys[i]] = value
        end
        return found
    end)
end


--- Write { key, value } pairs over one connection, each to live `ttl_s`.
function _M.set_all(servers, items, ttl_s)
    return with_any(servers, function(client)
        for i = 1, #items do
            local ok, err = client:set(items[i][1], items[i][2], ttl_s)
            if not ok then
                return nil, err
            end
        end
        return true
    end)
end


return _M
