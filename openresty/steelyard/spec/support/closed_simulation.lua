--- A closed system: clients always have one request in flight each.
--
-- It runs a picker against real peer stats, with a clock of its own, event by event. A peer serves `lanes` requests at
-- a time, the rest waits in line. Each takes `service_s()` seconds, and is answered with 500 if `fails` says so.

local peer_stats = require "steelyard.core.peer_stats"

local _M = {}


--- Make peers with cells from rows of { id, weight, lanes =, service_s =, fails = }.
function _M.peers(rows)
    local peers = {}
    for i, row in ipairs(rows) do
        peers[i] = {
            id = row[1], address = row[1] .. ":80", ip = row[1], port = 80,
            weight = row[2], baseline = 1, state = "up", cell = i - 1,
        }
    end
    return peers
end


--- Stats for n peers.
function _M.stats(n)
    return peer_stats.new(peer_stats.local_memory(n), 1, n, 0)
end


--- Run a picker.
-- @param make    function(context) -> picker
-- @param rows    see peers()
-- @param options clients, requests (to be completed), think_s
-- @return shares by id (of all picks), response times in s, in order of completion
function _M.run(make, rows, options)
    local now = 1
    local stats = _M.stats(#rows)
    local peers = _M.peers(rows)
    local picker = assert(make{ random = math.random, stats = stats, now = function() return now end })
    picker:update(peers)

    local free_at, picked, times, events = {}, {}, {}, {}
    for i, row in ipairs(rows) do
        free_at[i] = {}
        picked[peers[i].id] = 0
        for lane = 1, row.lanes or 1 do
            free_at[i][lane] = 0
        end
    end

    local function send()
        local peer = picker:pick()
        local row, lanes = rows[peer.cell + 1], free_at[peer.cell + 1]
        local lane = 1
        for i = 2, #lanes do
            lane = lanes[i] < lanes[lane] and i or lane
        end
        lanes[lane] = math.max(now, lanes[lane]) + row.service_s()
        picked[peer.id] = picked[peer.id] + 1
        local in_flight = stats:in_flight(peer.cell)
        stats:raise(peer.cell)
        return { in_flight = in_flight, at = lanes[lane], since = now, peer = peer, ok = not row.fails }
    end

    for client = 1, options.clients do
        events[client] = send()
    end
    for _ = 1, options.requests do
        local first = 1
        for i = 2, #events do
            first = events[i].at < events[first].at and i or first
        end
        local event = events[first]
        now = event.at
        if event.peer then
            stats:lower(event.peer.cell)
            stats:observe(event.peer.cell, (now - event.since) * 1000, event.ok, now, event.in_flight)
            times[#times + 1] = now - event.since
        end
        if event.peer and options.think_s then
            events[first] = { at = now + options.think_s() }
        else
            events[first] = send()
        end
    end

    local total = 0
    for _, n in pairs(picked) do
        total = total + n
    end
    for id, n in pairs(picked) do
        picked[id] = n / total
    end
    return picked, times
end


return _M
