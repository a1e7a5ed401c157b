--- One upstream in one worker: its table, its picker, and the choice of a peer.
--
-- Pure: tables and randomness come in, peers go out. Who fetches, when, and
-- what becomes of the peer is not known here.

local ladder = require "steelyard.core.ladder"
local peers_of = require "steelyard.core.peers"
local pickers = require "steelyard.core.pickers"

-- A request that lost its server, and another, gets one more chance (nginx's
-- own default is no bound at all, which multiplies an overload).
local MAX_RETRIES = 2

-- nginx gives a try back when a connection from its pool turns out closed. It
-- may then ask again though every peer was tried; this bounds how often.
local MAX_PICKS = 6

local _M = {}
local mt = { __index = _M }


--- Make an upstream that knows no peer yet.
function _M.new(name, random)
    return setmetatable({
        name = name, random = random, rung = "none", drift = 0,
        table = nil, addresses = {}, eligible = {}, reserve = {}, picker = nil, picker_name = nil,
    }, mt)
end


--- Take a table (or the bootstrap list as one) at a rung of the ladder.
-- The same table at the same drift changes nothing; tells whether it did.
function _M:take(weight_table, rung, drift)
    self.rung = rung
    if weight_table == self.table and drift == self.drift then
        return false
    end
    if weight_table ~= self.table then
        self.addresses = peers_of.addresses(weight_table.peers)
    end
    if not self.picker or weight_table.picker ~= self.table.picker then
        self.picker, self.picker_name = pickers.make(weight_table.picker, self.random)
    end
    self.table, self.drift = weight_table, drift
    self.eligible, self.reserve = peers_of.eligible(ladder.drifted(weight_table.peers, drift))
    self.picker:update(self.eligible)
    return true
end


--- How many tries beyond the first a request may have.
function _M:retries()
    return math.max(0, math.min(MAX_RETRIES, #self.eligible + #self.reserve - 1))
end


--- Choose the peer of a request's first try; nil when no peer is eligible.
function _M:first()
    local picker = self.picker
    return picker and picker:pick()
end


--- Choose a peer for a retry: one not in tries[from..tries.n] if there is one.
function _M:another(tries, from)
    local peer = peers_of.draw_untried(self.eligible, tries, from, self.random)
                 or peers_of.draw_untried(self.reserve, tries, from, self.random)
    if not peer and tries.n - from + 1 < MAX_PICKS then
        peer = self:first()
    end
    return peer
end


--- Say in words why no peer was chosen.
function _M:why_none()
    if not self.table then
        return "no weight table yet and no bootstrap list"
    end
    local peers = self.table.peers
    if #peers == 0 then
        return "the weight table has no servers"
    end
    if #self.eligible == 0 then
        local states = {}
        for i = 1, #peers do
            states[i] = peers[i].id .. " is " .. peers[i].state
        end
        return "no server is up: " .. table.concat(states, ", ", 1, math.min(#states, 10))
    end
    return "every server was tried"
end


return _M
