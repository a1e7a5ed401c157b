--- An upstream's servers, for Lua in nginx.conf: read their state, and mark them up or down for all workers.
--
-- A server that is marked down is out like one that fails its checks: its weight stays, and when all are out, all are
-- used. Marks are in the shared dict: they outlive a reload, also one with a dict of another size, and end with nginx.

local address = require "steelyard.core.address"
local clock = require "steelyard.io.clock"
local peer_health = require "steelyard.io.peer_health"
local status_pages = require "steelyard.phase.status_pages"
local worker = require "steelyard.phase.worker"

-- Ten years, in effect until it is marked up.
local FOREVER_S = 3e8

local _M = {}


--- The servers of an upstream in id order, as the status page has them; unknown values are ngx.null. Call it in phases
-- that may wait (access_by_lua, content_by_lua, timers): thousands of servers are gathered in slices.
-- @return the rows; nil and the reason if there is no such upstream
function _M.servers(name)
    local live = worker.upstreams[name]
    if not live then
        return nil, worker.broken or "there is no upstream " .. tostring(name)
    end
    return status_pages.rows_of(live, clock.breather())
end


local function peer_of(live, server)
    local canonical = address.canonical(tostring(server))
    for _, peer in ipairs((live.known or live.bootstrap).peers) do
        if peer.id == server or peer.address == canonical then
            return peer
        end
    end
end


--- Mark a server, in any phase:
--
--   "down"     it is out, for `seconds` or until it is "up"
--   "up"       all marks except those of checks are removed
--   "failed"   it gave no answer: a try of max_fails
--
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
        local marked = health:mark(name, peer, peer_health.MARKED, "marked down", seconds)
        if marked == false then
            marked = health:renew(name, peer, peer_health.MARKED, nil, seconds)
        end
        if not marked then
            return nil, "the shared dict has no room for the mark: " .. worker.dict:remedy()
        end
    elseif how == "up" then
        health:clear_all(name, peer)
    else
        return nil, "a server is up, down or failed, and not " .. tostring(how)
    end
    return true
end


return _M
