--- Get and set in the first Memcached server that answers.
--
-- For timers only: a call takes as long as a connect and a round trip, or
-- TIMEOUT_MS for a server that is away (once in a while: io/away). World failure
-- is nil, err.

local away = require "steelyard.io.away"
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


--- Do work(client) -> value, err with the first server that lets it succeed;
-- the value and the server's name, or nil and what each of them said.
local function with_any(servers, work)
    local failures = {}
    for i = 1, #servers do
        local server = servers[i]
        local value, err = away.attempt("memcached " .. server.name, function()
            return attempt(server, work)
        end)
        if value ~= nil then
            return value, server.name
        end
        failures[i] = server.name .. ": " .. tostring(err)
    end
    return nil, table.concat(failures, "; ")
end


--- Read several keys over one connection: key -> text, absent keys left out,
-- and the name of the server that had them.
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
