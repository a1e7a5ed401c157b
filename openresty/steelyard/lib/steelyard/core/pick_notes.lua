--- Why this server: at which peers a picker looked for a request, and how much each had in flight.
--
-- A recorder is the same peer stats to the pickers of an upstream that explains its picks: it notes what in_flight()
-- tells. Pickers know nothing of it, and where nobody wants to know there is none. Pure.

-- A line of a log is no place for more; the last that were looked at are told.
local MOST = 8

local _M = {}
local mt = { __index = _M }


--- Wrap peer stats: the stats that note, and the notes.
function _M.recorder(stats)
    local notes = setmetatable({ n = 0, cells = {}, loads = {}, by_cell = {}, by_cell_at = -1 }, mt)
    -- What changes the stats changes those that are wrapped, whatever it is.
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


--- Note what a peer has; once, however often it is looked at.
function _M:note(cell, load)
    local cells, place = self.cells, 1
    while place <= MOST and place <= self.n and cells[place] ~= cell do
        place = place + 1
    end
    if place > self.n or place > MOST then
        self.n = self.n + 1
        place = (self.n - 1) % MOST + 1
    end
    cells[place], self.loads[place] = cell, load
end


--- Say in words what was looked at since the last call: "a 3/20, b 1/10", in flight and weight of each.
-- @param peers    those that are eligible, and `changes`, a number that changes with them
function _M:take(peers, changes)
    if self.by_cell_at ~= changes then
        self.by_cell, self.by_cell_at = {}, changes
        for i = 1, #peers do
            self.by_cell[peers[i].cell] = peers[i]
        end
    end
    local words = {}
    for i = 1, math.min(self.n, MOST) do
        local peer = self.by_cell[self.cells[i]]
        words[#words + 1] = peer and string.format("%s %.4g/%d", peer.id, self.loads[i], peer.weight)
    end
    self.n = 0
    return table.concat(words, ", ")
end


return _M
