--- Why this server: the peers that a picker looked at for a request, and how much each had in flight.
--
-- A recorder is a copy of the peer stats for the pickers of an upstream with the option `explain`: it notes the
-- results of in_flight(). Pickers are unaware of it, and without the option there is none. Pure.

-- Peers in a line of the log: the last ones looked at.
local MAX_PEERS_NOTED = 8

local _M = {}
local mt = { __index = _M }


--- Wrap peer stats: return the recording stats, and the notes.
function _M.recorder(stats)
    local notes = setmetatable({ n = 0, cells = {}, loads = {}, by_cell = {}, by_cell_at = -1 }, mt)
    -- A method called on the recorder changes the wrapped stats.
    local recorder = setmetatable({}, { __index = function(_, name)
        local value = stats[name]
        return type(value) == "function" and function(_, ...) return value(stats, ...) end or value
    end })
    function recorder.in_flight(_, cell)
        local load = stats:in_flight(cell)
        notes:note(cell, load)
        return load
    end
    return recorder, notes
end


--- Note the load of a peer once, however often it is looked at.
function _M:note(cell, load)
    local cells, place = self.cells, 1
    while place <= MAX_PEERS_NOTED and place <= self.n and cells[place] ~= cell do
        place = place + 1
    end
    if place > self.n or place > MAX_PEERS_NOTED then
        self.n = self.n + 1
        place = (self.n - 1) % MAX_PEERS_NOTED + 1
    end
    cells[place], self.loads[place] = cell, load
end


--- Return in words what was looked at since the last call: "a 3/20, b 1/10", in flight and weight of each.
-- @param peers   the eligible peers
-- @param changes a number that changes with them
function _M:take(peers, changes)
    if self.by_cell_at ~= changes then
        self.by_cell, self.by_cell_at = {}, changes
        for i = 1, #peers do
            self.by_cell[peers[i].cell] = peers[i]
        end
    end
    local words = {}
    for i = 1, math.min(self.n, MAX_PEERS_NOTED) do
        local peer = self.by_cell[self.cells[i]]
        words[#words + 1] = peer and string.format("%s %.4g/%d", peer.id, self.loads[i], peer.weight)
    end
    self.n = 0
    return table.concat(words, ", ")
end


return _M
