--- One upstream in one worker: its table, its picker, and the choice of a peer.
--
-- Pure: tables, health and randomness come in, peers go out. Who fetches, when,
-- and what becomes of the peer is not known here.

local ladder = require "steelyard.core.ladder"
local peers_of = require "steelyard.core.peers"
local pickers = require "steelyard.core.pickers"

-- nginx gives a try back when a connection from its pool turns out closed. It
-- may then ask again though every peer was tried; beyond the tries that a
-- request may have, this bounds how often.
local SPARE_PICKS = 3

local NOBODY = {}

local function no_pause() end

local _M = {}
local mt = { __index = _M }


--- Make an upstream that knows no peer yet.
-- @param settings its options (core/upstream_options)
-- @param context  what pickers are made with: random, board, now
function _M.new(name, settings, context)
    return setmetatable({
        name = name, settings = settings, context = context,
        rung = "none", drift = 0, unhealthy = NOBODY, fail_open = false,
        table = nil, eligible = {}, reserve = {}, picker = nil, picker_name = nil, picker_error = nil,
        check = settings.check, -- the one in force
        more_tries = 0,      -- how many tries beyond the first a request may have
        hash_variable = nil, -- nginx's variable that the picker hashes, if it does
        changes = 0,         -- raised with each change of who is picked among, and how
    }, mt)
end


local function choose_picker(self, asked)
    if asked ~= self.picker_asked then
        local picker, name, err = pickers.make(asked, self.context)
        self.picker_asked = asked
        return picker, name, err
    end
    return self.picker, self.picker_name, self.picker_error
end


--- The check that is in force with a table: its own, or nginx.conf's.
function _M:check_with(weight_table)
    return weight_table.check or self.settings.check
end


--- Serve a table with what it says beside its peers; where it is silent,
-- nginx.conf's settings stand.
local function put_in_force(self, weight_table)
    local key = weight_table.hash_variable or self.settings.hash_variable
    if not self.picker.wants_key then
        key = nil
    end
    if key ~= self.hash_variable then
        self.hash_variable, self.changes = key, self.changes + 1
    end
    self.table, self.check = weight_table, self:check_with(weight_table)
end


--- Take a table (or the bootstrap list as one) at a rung of the ladder. What
-- changes no peer restarts no ring; tells whether anything did. May call
-- breathe(): what is served meanwhile is the table before.
-- @param unhealthy id -> why, for peers that health has taken out
function _M:take(weight_table, rung, drift, unhealthy, breathe)
    unhealthy, breathe = unhealthy or NOBODY, breathe or no_pause
    self.rung = rung
    local asked = self.settings.picker or weight_table.picker
    if self.table and weight_table.peers == self.table.peers and drift == self.drift
       and unhealthy == self.unhealthy and asked == self.picker_asked then
        put_in_force(self, weight_table) -- a new generation of the same weights
        return false
    end
    local peers = ladder.drifted(weight_table.peers, drift, breathe)
    local eligible, reserve, fail_open = peers_of.eligible(peers, unhealthy)
    local picker, name, err = choose_picker(self, asked)
    picker:update(eligible, breathe)
    self.picker, self.picker_name, self.picker_error = picker, name, err
    self.eligible, self.reserve, self.fail_open = eligible, reserve, fail_open
    self.more_tries = math.max(0, math.min(self.settings.retries, #eligible + #reserve - 1))
    self.drift, self.unhealthy = drift, unhealthy
    put_in_force(self, weight_table)
    self.changes = self.changes + 1
    return true
end


--- Choose the peer of a request's first try; nil when no peer is eligible.
-- @param key what a hash picker hashes
function _M:first(key)
    local picker = self.picker
    return picker and picker:pick(key)
end


--- Choose a peer for a retry: one not in tries[from..tries.n] if there is one.
function _M:another(tries, from, key)
    local random = self.context.random
    local peer = peers_of.draw_untried(self.eligible, tries, from, random)
                 or peers_of.draw_untried(self.reserve, tries, from, random)
    if not peer and tries.n - from + 1 < self.settings.retries + 1 + SPARE_PICKS then
        peer = self:first(key)
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
        for i = 1, math.min(#peers, 10) do
            states[i] = peers[i].id .. " is " .. peers[i].state
        end
        return "no server is up: " .. table.concat(states, ", ") .. (#peers > 10 and ", ..." or "")
    end
    return "every server was tried"
end


return _M
