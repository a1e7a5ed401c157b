--- The product's pickers for many load balancers in one LuaJIT: each has a
-- board and a clock of its own, as each has in its own nginx.
--
-- One call a pick and one an answer: a call from outside costs more than the
-- pick itself. Servers are numbered from 0, as their cells are.

local board_of = require "steelyard.core.board"
local pickers = require "steelyard.core.pickers"

-- Where nginx's clock stands when the simulation begins: long after 1970, so
-- that a cell's first sample counts in full.
local START_S = 1e6


local function milliseconds(seconds)
    return math.floor(seconds * 1000) -- nginx's clock
end


--- The eligible peers of a table, in id order: what a picker's update takes.
local function peers_of(weights)
    local peers = {}
    for i = 1, #weights do
        local id = string.format("server-%06d", i)
        peers[i] = { id = id, address = id, weight = weights[i], cell = i - 1 }
    end
    return peers
end


--- Make a balancer: functions to pick at a time, to note an answer, and to take peers.
local function balancer(name, servers)
    local board, now = board_of.new(board_of.local_memory(servers), 1, servers, 0), START_S
    local picker, _, err = pickers.make(name, {
        random = math.random, board = board, now = function() return now end,
    })
    if err then
        error(err)
    end
    local function pick(at)
        now = START_S + at
        local cell = picker:pick().cell
        board:raise(cell)
        return cell
    end
    local function answered(cell, sent, at, ok)
        board:lower(cell)
        board:observe(cell, milliseconds(at) - milliseconds(sent), ok, START_S + at)
    end
    local function update(peers)
        picker:update(peers)
    end
    return pick, answered, update
end


return { balancer = balancer, peers_of = peers_of, seed = math.randomseed }
