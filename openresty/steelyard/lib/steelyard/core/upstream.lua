--- One upstream in one worker: its table, its picker, and the choice of a peer.
--
-- core/eligible_peers chooses the peers to pick from, and fails open if too many are unhealthy. A peer that returns may
-- start slowly. Peers carry id, address, weight and state, and are in id order.
--
-- With `max_conns`, every picker's choice is passed over while it has that number of requests in flight; then backups
-- are used, too. Workers look before they raise the shared count: if all of them choose one peer in the same
-- microsecond, it gets up to one more request per worker. A table's `max_conns` counts the requests of all load
-- balancers in the exchange. A peer's own `max_conns` replaces both limits.
--
-- Pure: tables, health and randomness come in, peers go out. Fetching, timing and the fate of a peer are handled
-- elsewhere.

local eligible_peers = require "steelyard.core.eligible_peers"
local ladder = require "steelyard.core.ladder"
local no_pause = require("resty.vnswrr").no_pause
local own_failures = require "steelyard.core.own_failures"
local peer_cells = require "steelyard.core.peer_cells"
local pick_notes = require "steelyard.core.pick_notes"
local pickers = require "steelyard.core.pickers"
local request_cost = require "steelyard.core.request_cost"
local retries = require "steelyard.core.retries"
local retry_budget = require "steelyard.core.retry_budget"
local slow_start = require "steelyard.core.slow_start"
local sticky = require "steelyard.core.sticky"
local subset = require "steelyard.core.subset"
local untried_peers = require "steelyard.core.untried_peers"
local weight_tables = require "steelyard.core.weight_table"
local zones = require "steelyard.core.zones"

-- How often a picker is asked again after it chose a full peer, before all peers are looked at.
local PICKS_FOR_ROOM = 4

-- Growth of a peer's share of the weights by which it counts as recovered: see forget_slowness.
local RECOVERED_RATIO = 2

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local NONE_UNHEALTHY, NO_TRIES = {}, { n = 0 }

local _M = {}
local mt = { __index = _M }


--- Make an upstream without a table.
-- @param settings its options (core/upstream_options)
-- @param context  what pickers are made with: random, stats, now; the digest for sticky sessions; the number of
--        workers; lb, the load balancer's name; and picker_failed(name, method, problem), for errors of a picker that
--        is not Steelyard's own
function _M.new(name, settings, context)
    local budget, own = settings.retry_budget, own_failures.new(settings)
    local stats, notes = settings.cost and context.stats:by_cost() or context.stats, nil
    if own then
        stats = own:over(stats)
    end
    if settings.explain then
        stats, notes = pick_notes.recorder(stats)
    end
    if stats ~= context.stats or settings.hash_balance_factor or settings.remember_keys then
        context = setmetatable({ stats = stats, name = name, hash_balance_factor = settings.hash_balance_factor,
                                 remember_keys = settings.remember_keys }, { __index = context })
    end
    return setmetatable({
        name = name, settings = settings, context = context,
        rung = "none", drift = 0, unhealthy = NONE_UNHEALTHY, fail_open = false,
        table = nil, eligible = {}, reserve = {}, picker = nil, picker_name = nil, picker_error = nil,
        check = settings.check, -- in force
        subset = settings.subset_size and subset.new(settings.subset_size, context.lb), -- nil: all servers are used
        limited = settings.max_conns ~= nil, -- whether peers may be full
        max_conns_of_all = nil, has_own_limits = false, -- the table's limit; whether a peer has its own
        limited_of_all = false, -- whether the table or a peer in it has a limit
        slow_start = slow_start.new(settings.slow_start_s or 0), starting = nil, -- peers with a part of their weight
        half_open = NONE_UNHEALTHY, next_half_open = 1, -- peers that one request at a time may probe
        more_tries = 0,      -- tries of a request beyond its first
        hash_variable = nil, -- nginx variable, or function, for a hash picker's key
        sticky = settings.sticky and sticky.new(settings.sticky, context.digest), -- nil: no sessions
        -- Whether servers report these in their answers, and when that was last looked at.
        reports_load = false, reports_in_flight = false, looked_at = 0,
        notes = notes,       -- the peers that its picker looked at; nil without the option `explain`
        waiting = nil,       -- the queue of requests (phase/limit)
        by_address = {}, by_address_at = -1, -- eligible peers, and their `changes`: see with_room_at
        changes = 0,         -- raised with each change of peers or picker
        -- The costs of requests; nil if all weigh the same.
        costs = (settings.cost or settings.cost_at_end) and request_cost.new(),
        own_failures = own,  -- nil: it has no rules of its own
        retry_budget = budget and retry_budget.new(budget, context.workers, context.now), -- nil: none
    }, mt)
end


local function choose_picker(self, asked)
    if asked ~= self.picker_asked then
        return pickers.make(asked, self.context, function(method, problem)
            if self.context.picker_failed then
                self.context.picker_failed(self.name, method, problem)
            end
        end)
    end
    return self.picker, self.picker_name, self.picker_error
end


--- Return the check for a table: its own, or nginx.conf's.
function _M:check_with(weight_table)
    return weight_table.check or self.settings.check
end


--- Put a table in force, with its check and hash key. If it has none, nginx.conf's apply.
local function put_in_force(self, weight_table)
    local key = weight_table.hash_variable or self.settings.hash_variable
    if not self.picker.wants_key then
        key = nil
    end
    if key ~= self.hash_variable then
        self.hash_variable, self.changes = key, self.changes + 1
    end
    if self.picker.note_others then
        self.picker:note_others(weight_tables.names_another(weight_table, self.context.lb))
    end
    self.table, self.check = weight_table, self:check_with(weight_table)
    self.max_conns_of_all = weight_table.max_conns
    self.limited_of_all = weight_table.max_conns ~= nil or self.has_own_limits
    self.limited = self.limited_of_all or self.settings.max_conns ~= nil
end


local function any_limited(peers)
    for i = 1, #peers do
        if peers[i].max_conns then
            return true
        end
    end
    return false
end


local function total_of(peers)
    local total = 0
    for i = 1, #peers do
        total = total + peers[i].weight
    end
    return total
end


--- Forget the latency of each peer whose share of the weights has doubled: its agent has seen its recovery before any
-- request has. Its latency was learned while it was slow. A picker that goes by latency would send it nothing, so
-- nothing could correct the figure until it fades. If the peer is slow after all, two requests show it.
local function forget_slowness(stats, before, peers, breathe)
    local share_before, total, total_before = {}, total_of(peers), total_of(before)
    for i = 1, #before do
        share_before[before[i].address] = before[i].weight / total_before
    end
    for i = 1, #peers do
        local share = share_before[peers[i].address]
        if share and peers[i].weight / total >= RECOVERED_RATIO * share then
            stats:forget_latency(peers[i].cell)
        end
        breathe(i, ROWS_PER_BREATH)
    end
end


--- Take a table (or the bootstrap list as one) at a rung of the ladder. A table without changed peers restarts no ring.
-- May call breathe(); requests meanwhile are served by the previous table, picker and limits. No field changes before
-- the last call, and then all change together. Return whether anything changed.
-- @param unhealthy id -> reason, for peers that health has taken out
function _M:take(weight_table, rung, drift, unhealthy, breathe)
    unhealthy, breathe = unhealthy or NONE_UNHEALTHY, breathe or no_pause
    local asked = self.settings.picker or weight_table.picker
    local starting = self.slow_start:update(self.unhealthy, unhealthy, self.context.now())
    if self.table and weight_table.peers == self.table.peers and weight_table.zones == self.table.zones
       and drift == self.drift and unhealthy == self.unhealthy and starting == self.starting
       and asked == self.picker_asked then
        self.rung = rung
        put_in_force(self, weight_table) -- a new generation of the same weights
        return false
    end
    if self.table and weight_table.peers ~= self.table.peers then
        forget_slowness(self.context.stats, self.table.peers, weight_table.peers, breathe)
    end
    local picker, name, err = choose_picker(self, asked)
    local peers = slow_start.held(ladder.drifted(weight_table.peers, drift, breathe), starting, breathe)
    if not picker.wants_key then -- a key stays at its server in any zone
        peers = zones.weighed(peers, weight_table.zones, self.context.zone, breathe)
    end
    local eligible, reserve, fail_open = eligible_peers.of(peers, unhealthy, self.settings.panic_threshold or 0)
    local has_own_limits = any_limited(peers)
    local sessions = self.sticky and self.sticky:prepared(peers, eligible, unhealthy, breathe)
    picker:update(eligible, breathe, peers) -- pickers change after their last breath
    if picker.in_force then -- it is guarded, and another one may be in its place
        name, err = picker.in_force, picker.problem
    end
    if sessions then
        self.sticky:use(sessions)
    end
    self.picker, self.picker_name, self.picker_error, self.picker_asked = picker, name, err, asked
    self.rung, self.has_own_limits = rung, has_own_limits
    self.eligible, self.reserve, self.fail_open = eligible, reserve, fail_open
    self.more_tries = retries.allowed(self.settings.retries, #eligible + #reserve - 1)
    self.drift, self.unhealthy, self.starting = drift, unhealthy, starting
    put_in_force(self, weight_table)
    self.changes = self.changes + 1
    return true
end


--- Whether a peer has less in flight than max_conns. A peer without a cell is not counted, and always has room.
function _M:has_room(peer)
    if not self.limited or peer.cell == peer_cells.NONE then
        return true
    end
    local stats, others, cell = self.context.stats, self.context.others, peer.cell
    local own, most, of_all = stats:own(cell), self.settings.max_conns, self.max_conns_of_all
    if peer.max_conns then
        most, of_all = nil, peer.max_conns
    end
    if most and own >= most or of_all and own >= of_all then
        return false
    end
    -- The age matters only now: if no timer runs, `live` is out of date, too.
    return not (of_all and others and others.live and own + stats:others(cell) >= of_all
                and others:is_live(self.context.now()))
end


--- Note which peers are half-open (unhealthy[id].half_open), so that a request may probe them.
function _M:watch_half_open(peers, unhealthy)
    if next(unhealthy) == nil then
        self.half_open = NONE_UNHEALTHY
        return
    end
    local half_open
    for i = 1, #peers do
        local peer = peers[i]
        local sick = unhealthy[peer.id]
        if sick and sick.half_open and peer.weight > 0 and (peer.state == "up" or peer.state == "backup") then
            half_open = half_open or {}
            half_open[#half_open + 1] = peer
        end
    end
    self.half_open = half_open or NONE_UNHEALTHY
end


--- Return the next peer to probe with a request, or nil. A backup is left alone while others serve.
function _M:suspect()
    local half_open = self.half_open
    if #half_open == 0 or self.fail_open then
        return nil
    end
    local at = (self.next_half_open - 1) % #half_open + 1
    self.next_half_open = at + 1
    local peer, serving = half_open[at], self.eligible[1]
    if self:has_room(peer) and (peer.state == "up" or not serving or serving.state == "backup") then
        return peer
    end
end


--- Whether a peer is half-open: an answer then takes it back.
function _M:is_half_open(peer)
    local sick = self.unhealthy[peer.id]
    return sick and sick.half_open
end


--- Return the tries of a request beyond its first, at `peer`. A half-open peer is not among the peers for retries.
function _M:tries_after(peer)
    if not self.fail_open and self:is_half_open(peer) then
        return retries.allowed(self.settings.retries, #self.eligible + #self.reserve)
    end
    return self.more_tries
end


--- Return the eligible peer at an address if it has room, else nil.
function _M:with_room_at(address)
    if self.by_address_at ~= self.changes then
        local by_address = {}
        for i = 1, #self.eligible do
            by_address[self.eligible[i].address] = self.eligible[i]
        end
        self.by_address, self.by_address_at = by_address, self.changes
    end
    local peer = self.by_address[address]
    return peer and peer.weight > 0 and self:has_room(peer) and peer or nil
end


local function any_has_room(self, peers)
    for i = 1, #peers do
        if self:has_room(peers[i]) then
            return true
        end
    end
    return false
end


--- Whether there are peers and all are at max_conns. O(peers) if so.
function _M:full()
    if not self.limited or #self.eligible == 0 then
        return false
    end
    return not any_has_room(self, self.eligible) and not any_has_room(self, self.reserve)
end


--- Choose a peer with room, after the picker has chosen a full one.
local function first_with_room(self, key)
    if not self.hash_variable then -- a hash picker would name the same peer again
        for _ = 1, PICKS_FOR_ROOM do
            local peer = self.picker:pick(key)
            if self:has_room(peer) then
                return peer
            end
        end
    end
    return untried_peers.choose(self, NO_TRIES, 1, key)
end


--- Return in words why a request goes to `peer`: its session, a probe, or the picker with the peers it looked at.
-- @param session the peer of the request's session, or nil
function _M:why(peer, session, is_retry)
    local chooser, looked_at = is_retry and "retry" or self.picker_name, self.notes:take(self.eligible, self.changes)
    if peer == session then
        return "session"
    elseif self:is_half_open(peer) and not self.fail_open then
        return "half-open"
    end
    return looked_at == "" and chooser or chooser .. ": " .. looked_at
end


--- Choose the peer of a request's first try; nil if no peer is eligible.
-- @param key for a hash picker
function _M:first(key)
    local picker = self.picker
    local peer = picker and picker:pick(key)
    if peer and self.limited and not self:has_room(peer) then
        return first_with_room(self, key)
    end
    return peer
end


--- Choose a peer for a retry that is not in tries[from..tries.n], or nil.
-- @param is_spare whether it may be one that was tried, if no other is left (core/retries)
function _M:another(tries, from, key, is_spare)
    local peer = untried_peers.choose(self, tries, from, key)
    if not peer and is_spare and untried_peers.count(self, tries, from) == 0 then
        peer = self:first(key)
    end
    return peer
end


--- Return in words why no peer was chosen after tries[from..tries.n], and the status to answer with, or nil.
function _M:why_none(tries, from)
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
    -- Not looked at again: another worker may have let go of a peer since.
    local full = self.limited and untried_peers.count(self, tries, from) or 0
    if full > 0 then
        local of_all = self.max_conns_of_all
        local most = self.has_own_limits and "as many requests in flight as their max_conns"
                     or "max_conns = " .. (self.settings.max_conns or of_all) .. " requests in flight"
                        .. (of_all and " here, or " .. of_all .. " of all load balancers" or "")
        return "all " .. full .. " servers " .. (tries.n >= from and "that were not tried " or "") .. "have " .. most,
               self.settings.full_status
    end
    return "every server was tried"
end


return _M
