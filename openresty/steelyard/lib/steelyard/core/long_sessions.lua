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

local JITTER = 0.2

local NO_SETTINGS = {}

local _M = {}
local mt = { __index = _M }


--- Make the sessions of a worker that has none yet.
function _M.new(random)
    return setmetatable({ random = random, sessions = {}, standings = {} }, mt)
end


--- Whether an upstream's sessions are ever closed.
function _M.wanted(settings)
    return (settings.session_grace_s or settings.session_max_age_s) ~= nil
end


--- Which servers of an upstream stay, and its settings.
-- @param known the same as of the last look, or nil
-- @param live  nil where the upstream is gone, and all of its servers with it
local function standing_of(known, live)
    if known and known.live == live and known.changes == (live and live.changes) then
        return known
    end
    local stays = {}
    for _, peer in ipairs(live and live.table and live.table.peers or {}) do
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
local function judge(session, entry, standing, here, now)
    local settings = standing.settings
    local has_left = standing.is_served and not standing.stays[session.peer.address]
    local max_age_s = settings.session_max_age_s
    session.left_at = has_left and (session.left_at or now) or nil
    local over_at = has_left and settings.session_grace_s and session.left_at + settings.session_grace_s
    if not over_at or now < over_at then
        here.others = here.others + 1
    elseif now >= over_at + session.random * settings.session_spread_s then
        here.due, here.upstream = here.due + 1, entry.upstream
        here.clients[#here.clients + 1] = entry.client
    end
    if max_age_s and entry.client and now >= session.since + max_age_s * (1 - JITTER * session.random) then
        here.aged[#here.aged + 1] = { client = entry.client, upstream = entry.upstream }
    end
end


--- What is to be closed now.
-- @param open      key -> entry (core/open_requests), with the ends of its `client`'s connection if that is its own
-- @param upstreams name -> core/upstream
-- @return a list of { server = address, count, upstream } and { client, upstream }
function _M:due(open, upstreams, now)
    local sessions, standings, servers, list = {}, {}, {}, {}
    for key, entry in pairs(open) do
        local peer, session = entry[entry.n], self.sessions[key]
        if peer then
            if not session or session.started ~= entry.started or session.peer ~= peer then
                session = { started = entry.started, peer = peer, since = now, random = self.random() }
            end
            local here = servers[peer.address] or { others = 0, due = 0, clients = {}, aged = {} }
            local name = entry.upstream
            local standing = standings[name] or standing_of(self.standings[name], upstreams[name])
            sessions[key], standings[name], servers[peer.address] = session, standing, here
            judge(session, entry, standing, here, now)
        end
    end
    self.sessions, self.standings = sessions, standings
    for address, here in pairs(servers) do
        if here.due > 0 and here.others == 0 then
            list[#list + 1] = { server = address, count = here.due, upstream = here.upstream }
        else
            for i = 1, #here.clients do
                list[#list + 1] = { client = here.clients[i], upstream = here.upstream }
            end
        end
        for i = 1, #here.aged do
            list[#list + 1] = here.aged[i]
        end
    end
    return list
end


return _M
