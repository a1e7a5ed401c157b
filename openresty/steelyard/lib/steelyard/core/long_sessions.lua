--- Long sessions of one worker: which of its open requests are to be closed, and from which side.
--
-- A server has left when it is drained, out of the table, or out for its health, and others serve. What is open there
-- is to be closed
--
--     grace_s + random spread_s     after the server left, or the request was first seen there, whichever is later
--
-- and where there is an age limit, whatever the server, max_age_s (1 - random JITTER) after it was seen first.
--
-- Which connection to a server serves which request nginx tells nobody, but which requests are at a server is known.
-- When the grace of all of them is over, any of its connections may go, and nginx then tries a request elsewhere that
-- was not answered yet. Else, and for the age limit, it is the client's connection, which is known where no other
-- request shares it: not over HTTP/2 and HTTP/3.
--
-- Pure: requests, upstreams and the monotonic time come in, connections go out.

local address = require "steelyard.core.address"

local JITTER = 0.2

local NO_SETTINGS = {}

local _M = {}
local mt = { __index = _M }


--- Make the sessions of a worker that has none yet.
function _M.new(random)
    return setmetatable({ random = random, sessions = {}, standings = {} }, mt)
end


--- Which servers of an upstream stay, and its settings.
-- @param known the same as of the last look, or nil
-- @param live  nil where the upstream is gone, and all of its servers with it
local function standing_of(known, live)
    if known and known.live == live and known.changes == (live and live.changes) then
        return known
    end
    local stays, served = {}, live and live.table or { peers = {} }
    for _, peer in ipairs(served.all or served.peers) do -- one that is in a subset no more has not left
        stays[peer.address] = (peer.state == "up" or peer.state == "backup")
                              and (live.fail_open or not live.unhealthy[peer.id]) or nil
    end
    return {
        live = live, changes = live and live.changes, stays = stays,
        is_served = live == nil or next(stays) ~= nil, -- else clients would come back to nobody
        settings = live and live.settings or known and known.settings or NO_SETTINGS,
    }
end


--- Judge one request: add it to what is to be closed, or not, at its server.
local function judge(session, standing, here, now)
    local settings = standing.settings
    local grace_s, max_age_s = settings.session_grace_s, settings.session_max_age_s
    if not (grace_s and standing.is_served) or standing.stays[session.peer.address] then
        session.over_at, session.close_at = nil, nil
    elseif not session.over_at then
        session.over_at = now + grace_s
        session.close_at = session.over_at + session.random * settings.session_spread_s
    end
    if not session.over_at or now < session.over_at then
        here.others = here.others + 1
    elseif now >= session.close_at then
        here.due[#here.due + 1] = session
    end
    if max_age_s and now >= session.since + max_age_s * (1 - JITTER * session.random) then
        here.aged[#here.aged + 1] = session
    end
end


--- Forget the sessions that are gone. Where the time of one had not come, one whose time has come waits for that: which
-- session a connection to the server had is not known before it is shut down, and as many are to be left as if it had
-- been the one that was due.
local function forget_gone(sessions, servers, now)
    for key, session in pairs(sessions) do
        if session.seen_at ~= now then
            sessions[key] = nil
            local here = servers[session.peer.address]
            local last = here and #here.due or 0
            if last > 0 and session.over_at and session.over_at <= now and session.close_at > now then
                here.due[last].close_at, here.due[last] = session.close_at, nil
            end
        end
    end
end


--- Add the clients' connections of sessions, where they are known.
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


--- The connections that are to be closed now, as io/connections has them.
-- @param open      key -> entry (core/open_requests), with the keys of both ends of its `client`'s connection if that
--                  is its own
-- @param upstreams name -> core/upstream
function _M:due(open, upstreams, now)
    local sessions, standings, servers, targets = self.sessions, {}, {}, {}
    for key, entry in pairs(open) do
        local peer, session, name = entry.tries[entry.tries.n], sessions[key], entry.upstream
        if peer then
            if not session or session.started ~= entry.started or session.peer ~= peer then
                session = {
                    started = entry.started, peer = peer, since = now, random = self.random(),
                    client = entry.client, upstream = name,
                }
                sessions[key] = session
            end
            local here, standing = servers[peer.address], standings[name]
            if not here then
                here = { peer = peer, others = 0, due = {}, aged = {} }
                servers[peer.address] = here
            end
            if not standing then
                standing = standing_of(self.standings[name], upstreams[name])
                standings[name] = standing
            end
            session.seen_at = now
            judge(session, standing, here, now)
        end
    end
    forget_gone(sessions, servers, now)
    self.standings = standings
    for _, here in pairs(servers) do
        local due = here.due
        if #due > 0 and here.others == 0 then
            local key = address.key_of(here.peer.ip, here.peer.port)
            targets[key] = { closed = 0, count = #due, upstream = due[1].upstream }
        else
            add_clients(targets, due)
        end
        add_clients(targets, here.aged)
    end
    return targets
end


return _M
