--- The names of the pickers, peer stats written by hand, and a random that follows a script.

local pickers = require "steelyard.core.pickers"

local _M = {}


--- The names of Steelyard's own pickers, which need no library.
-- @param by_in_flight true: only those that go by the requests in flight
function _M.own(by_in_flight)
    local names = {}
    for _, each in ipairs(pickers.all()) do
        if not each.library and (each.by_in_flight or not by_in_flight) then
            names[#names + 1] = each.name
        end
    end
    return names
end


--- The description of a picker by its name.
function _M.listed(name)
    for _, each in ipairs(pickers.all()) do
        if each.name == name then
            return each
        end
    end
end


--- Peer stats of rows: cell -> { in_flight =, latency =, peak =, failing = }, each 0 by default. The latency is that of
-- every level. `rested = true`: a slow server that may be tried again.
function _M.stats(rows)
    local stats = { rows = rows or {}, keep_levels = function() end }
    for _, name in ipairs({ "in_flight", "latency", "peak", "failing" }) do
        stats[name] = function(_, cell)
            return stats.rows[cell] and stats.rows[cell][name] or 0
        end
    end
    stats.latency_at = stats.latency
    function stats.may_be_tried(_, cell)
        return stats.rows[cell].rested == true
    end
    return stats
end


--- Peers of ids and weights in turn ("a", 5, "b", 1), with cells from 1.
function _M.peers(...)
    local peers, list = {}, { ... }
    for i = 1, #list / 2 do
        local id = list[2 * i - 1]
        peers[i] = { id = id, address = id .. ":80", weight = list[2 * i], cell = i }
    end
    return peers
end


--- A random that returns these numbers in turn, again and again.
function _M.scripted(...)
    local script, at = { ... }, 0
    return function(n)
        at = at % #script + 1
        assert(script[at] <= n, "the script says " .. script[at] .. " of 1.." .. n)
        return script[at]
    end
end


--- A picker over the peers, at the front of its ring, with a random for its draws.
function _M.picker(module, peers, stats, random)
    local picker
    picker = module.new{
        stats = stats, now = function() return 0 end,
        random = function(n) return picker and picker.started and random(n) or 1 end,
    }
    picker:update(peers)
    picker.started = true
    return picker
end


--- The ids of the next n picks.
function _M.ids(picker, n)
    local ids = {}
    for i = 1, n do
        ids[i] = picker:pick().id
    end
    return table.concat(ids, " ")
end


return _M
