--- What Lua in nginx.conf reads of an upstream's servers, and tells of them; all workers go by what one is
-- told.
--
-- A server that is marked down is out as one that fails its checks is: its weight stays what it was, and when
-- all are out, all are used. Marks lie in the shared dict: they outlast a reload, and end with nginx.

local clock = require "steelyard.io.clock"
local peer_health = require "steelyard.io.peer_health"
local status_pages = require "steelyard.phase.status_pages"
local worker = require "steelyard.phase.worker"

-- Ten years: until it is marked up.
local FOREVER_S = 3e8

local _M = {}


--- The servers of an upstream in id order, as the status page has them; what is not known is ngx.null. Where
-- a request may wait (access_by_lua, content_by_lua, timers): thousands are gathered in slices.
-- @return nil and the reason where there is no such upstream
function _M.servers(name)
    local live = worker.upstreams[name]
    if not live then
        return nil, worker.broken or "there is no upstream " .. tostring(name)
    end
    return status_pages.rows_of(live, clock.breather())
end


local function peer_of(live, server)
    for _, peer in ipairs((live.known or live.bootstrap).peers) do
        if peer.id == server or peer.address == server then
            return peer
        end
    end
end


--- Tell how a server is: "down" (out, for so many seconds or until it is "up"), "up" (whatever health has
-- said of it is forgotten), or "failed" (it gave no answer: one of max_fails). In any phase.
-- @param server its id, or its address
-- @return true; nil and the reason
function _M.mark(name, server, how, seconds)
    local live, health = worker.upstreams[name], worker.health
    local peer = live and peer_of(live, server)
    if not peer then
        return nil, worker.broken or "there is no server " .. tostring(server) .. " in upstream " .. tostring(name)
    elseif how == "failed" then
        health:failed(name, peer, live.settings)
    elseif how == "down" then
        seconds = seconds or FOREVER_S
        if not health:mark(name, peer, peer_health.MARKED, "marked down", seconds) then
            health:prolong(name, peer, peer_health.MARKED, nil, seconds)
        end
    elseif how == "up" then
        health:clear_all(name, peer)
    else
        return nil, "a server is up, down or failed, and not " .. tostring(how)
    end
    return true
end


return _M
