--- Long sessions of one worker: its open requests that are due to be closed, and at which side.
--
-- A server has left when it is drained, out of the table, or unhealthy, and others serve. A request that is open there
-- is closed
--
--     grace_s + random spread_s     after the server left, or after the request was first seen there if later
--
-- and with an age limit, at any server, max_age_s (1 - random JITTER) after it was first seen.
--
-- nginx does not say which connection to a server carries which request, but the requests at a server are known. When
-- the grace of all of them is over, any of the server's connections may be closed. nginx then retries an unanswered
-- request at another server. Otherwise, and for the age limit, the client's connection is closed. It is known only if
-- no other request shares it: not over HTTP/2 and HTTP/3.
--
-- Pure: requests, upstreams and the monotonic time come in, connections go out.

local address = require "steelyard.core.address"
local upstream_of = require("steelyard.core.request_entry").upstream_of

-- The last part of max_age_s, within which the end is random.
local JITTER = 0.2

local NO_SETTINGS = {}

local _M = {}
local mt = { __index = _M }


--- Make the sessions of a worker without any.
function _M.new(random)
    return setmetatable({ random = random, sessions = {}, standings = {} }, mt)
end


--- Return the servers of an upstream that stay, and its settings.
-- @param previous the result of the last look, or nil
-- @param live  nil if the upstream is gone, and all of its servers with it
local function standing_of(previous, live)
    if previous and previous.live == live and previous.changes == (live and live.changes) then
        return previous
    end
    local stays, served = {}, live and live.table or { peers = {} }
    for _, peer in ipairs(served.all or served.peers) do -- a server outside the subset has not left
        stays[peer.address] = (peer.state == "up" or peer.state == "backup")
                              and (live.fail_open or not live.unhealthy[peer.id]) or nil
    end
    return {
        live = live, changes = live and live.changes, stays = stays,
        is_served = live == nil or next(stays) ~= nil, -- else clients would come back to no server
        settings = live and live.settings or previous and previous.settings or NO_SETTINGS,
    }
end


--- Judge one request: add it to the due ones of its server, or to the others.
local function judge(session, standing, at_server, now)
    local settings = standing.settings
    local grace_s, max_age_s = settings.session_grace_s, settings.session_max_age_s
    if not (grace_s and standing.is_served) or standing.stays[session.peer.address] then
        session.over_at, session.close_at = nil, nil
    elseif not session.over_at then
        session.over_at = now + grace_s
        session.close_at = session.over_at + session.random * settings.session_spread_s
    end
    if not session.over_at or now < session.over_at then
        at_server.others = at_server.others + 1
    elseif now >= session.close_at then
        at_server.due[#at_server.due + 1] = session
    end
    if max_age_s and now >= session.since + max_age_s * (1 - JITTER * session.random) then
        at_server.aged[#at_server.aged + 1] = session
    end
end


--- Forget sessions that are gone. If one of them was not due yet, a due session takes over its remaining time. Which
-- session a connection carried is not known before it is shut down. So as many sessions remain as if the due one had
-- gone.
local function forget_gone(sessions, servers, now)
    for key, session in pairs(sessions) do
        if session.seen_at ~= now then
            sessions[key] = nil
            local at_server = servers[session.peer.address]
            local last = at_server and #at_server.due or 0
            if last > 0 and session.over_at and session.over_at <= now and session.close_at > now then
                at_server.due[last].close_at, at_server.due[last] = session.close_at, nil
            end
        end
    end
end


--- Add the clients' connections of sessions, if they are known.
local function add_clients(targets, sessions)
    for i = 1, #sessions do
        local client = sessions[i].client
        if client then
            local target = targets[client[1]] or { closed = 0, count = 0, upstream = sessions[i].upstream, locals = {} }
            target.count, target.locals[client[2] or ""] = target.count + 1, true
            targets[client[1]] = target
        end
    end
end


--- Return the connections to close now, for io/connections.
-- @param open      key -> entry (core/request_entry), with `client` if the request does not share its client's
--        connection
-- @param upstreams name -> core/upstream
function _M:due(open, upstreams, now)
    local sessions, standings, servers, targets = self.sessions, {}, {}, {}
    for key, entry in pairs(open) do
        local n = entry.tries.n
        local peer, session, name = entry.tries[n], sessions[key], upstream_of(entry, n)
        if peer then
            if not session or session.started ~= entry.started or session.peer ~= peer then
                session = {
                    started = entry.started, peer = peer, since = now, random = self.random(),
                    client = entry.client, upstream = name,
                }
                sessions[key] = session
            end
            local at_server, standing = servers[peer.address], standings[name]
            if not at_server then
                at_server = { peer = peer, others = 0, due = {}, aged = {} }
                servers[peer.address] = at_server
            end
            if not standing then
                standing = standing_of(self.standings[name], upstreams[name])
                standings[name] = standing
            end
            session.seen_at = now
            judge(session, standing, at_server, now)
        end
    end
    forget_gone(sessions, servers, now)
    self.standings = standings
    for _, at_server in pairs(servers) do
        local due = at_server.due
        if #due > 0 and at_server.others == 0 then
            local key = address.key_of(at_server.peer.ip, at_server.peer.port)
            targets[key] = { closed = 0, count = #due, upstream = due[1].upstream }
        else
            add_clients(targets, due)
        end
        add_clients(targets, at_server.aged)
    end
    return targets
end


return _M
