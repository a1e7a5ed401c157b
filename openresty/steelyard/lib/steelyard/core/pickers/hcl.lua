--- Pick by Prequal's hot-cold rule among three: the ring's next peer and two others. While the best is busy, among
-- more.
--
--   load     in_flight / (weight / mean weight)
--   hot      load >= the Q_RIF quantile of the loads drawn lately by this worker, one a pick
--   pick     among cold peers the least latency; if all are hot, the least load
--
-- Wydrowski et al., "Load is not what you should balance: Introducing Prequal" (NSDI 2024). A peer's latency is that
-- of recent requests with the same number in flight there (core/latency_by_level).
--
-- Prequal's clients probe the servers, three per query, and keep the answers in a pool. Here the requests in flight
-- from this nginx are at hand and never stale, so there is no probe and no pool. It sees requests from other load
-- balancers by their latency alone. Prequal has no weights. Here draws go by weight, and load is relative to it: at
-- rest the control plane's shares hold.
--
-- Between equal latencies the lesser load wins, and between equal loads the ring's peer. So a cluster at rest, where
-- all are hot, is served in the ring's order. Two rules of the other pickers (core/pickers/candidates) come first. A
-- failing peer is taken only if all fail. A peer that is wholly idle, or as idle as the other, stays idle if it is
-- over 5 times as slow as the other with its queue. Prequal lacks this rule; in bursts a slow server then gets the
-- requests refused by hot ones.
--
-- As in peak_ewma, a peer without a latency costs nothing while it has nothing in flight, and otherwise loses to every
-- known one. A known one costs at least 1 ms. O(1). Pure.

local ffi = require "ffi"
local candidates = require "steelyard.core.pickers.candidates"

local failing, max = candidates.failing, math.max
local SLOWER_RATIO, CLOCK_MS, UNKNOWN_MS = candidates.SLOWER_RATIO, candidates.CLOCK_MS, candidates.UNKNOWN_MS

-- Prequal's quantile of requests in flight.
local Q_RIF = 0.84

-- Drawn loads from which the quantile is taken, and picks between two computations: 2 us, a thirtieth for each pick.
local LOADS_KEPT, PICKS_PER_QUANTILE = 64, 32

-- The quantile is the least of this number of highest loads.
local QUANTILE_RANK = LOADS_KEPT - math.ceil(Q_RIF * LOADS_KEPT) + 1

local COLD, HOT, FAILING = 0, 1, 2


--- Return the Q_RIF quantile of the recent loads. `highest` is room for sorting, highest first.
local function quantile(loads, highest)
    for i = 0, QUANTILE_RANK - 1 do
        highest[i] = -1
    end
    for i = 0, LOADS_KEPT - 1 do
        local load = loads[i]
        if load > highest[QUANTILE_RANK - 1] then
            local at = QUANTILE_RANK - 1
            while at > 0 and highest[at - 1] < load do
                highest[at] = highest[at - 1]
                at = at - 1
            end
            highest[at] = load
        end
    end
    return highest[QUANTILE_RANK - 1]
end


--- Return whether a candidate is cold, hot or failing, its load and its latency.
local function judge(self, peer, now)
    local stats, cell = self.stats, peer.cell
    local in_flight = stats:in_flight(cell)
    -- Divided first: equal parts of two weights are then equal to the last bit.
    local load = in_flight / peer.weight * self.candidates.mean_weight
    local latency = stats:latency_at(cell, in_flight, now)
    if latency > 0 then
        latency = max(CLOCK_MS, latency)
    elseif in_flight > 0 then
        latency = UNKNOWN_MS
    end
    return failing(stats, peer, now) and FAILING or load >= self.hot_from and HOT or COLD, load, latency
end


--- Note the load of a draw, and now and then compute the quantile again.
local function note(self, load)
    local drawn = self.drawn
    self.loads[drawn] = load
    if drawn % PICKS_PER_QUANTILE == 0 then
        self.hot_from = quantile(self.loads, self.highest)
    end
    self.drawn = (drawn + 1) % LOADS_KEPT
end


--- Whether a candidate with this load and latency is left idle for another.
local function is_late(load, latency, to_load, to_latency)
    return to_latency > 0 and latency > SLOWER_RATIO * to_latency and (load == 0 or load == to_load)
end


--- Whether a candidate with this state, load and latency loses to another.
local function loses(state, load, latency, to_state, to_load, to_latency)
    if state ~= FAILING and to_state ~= FAILING then
        if is_late(load, latency, to_load, to_latency) then
            return true
        elseif is_late(to_load, to_latency, load, latency) then
            return false
        end
    end
    if state ~= to_state then
        return state > to_state
    elseif state == COLD and latency ~= to_latency then
        return latency > to_latency
    end
    return load > to_load
end


--- Return the better of the best so far and another peer with its judgement, and the load of the other.
local function better(self, now, best, state, load, latency, peer)
    local its_state, its_load, its_latency = judge(self, peer, now)
    if loses(state, load, latency, its_state, its_load, its_latency) then
        return peer, its_state, its_load, its_latency, its_load
    end
    return best, state, load, latency, its_load
end


local function pick(self)
    local choice, now = self.candidates, self.now()
    local best, second = choice:pair()
    if not best then
        return nil
    end
    local drawn
    local state, load, latency = judge(self, best, now)
    if second ~= best then
        best, state, load, latency = better(self, now, best, state, load, latency, second)
    end
    best, state, load, latency, drawn = better(self, now, best, state, load, latency, choice:another())
    note(self, drawn)
    if load == 0 and state ~= FAILING then
        return best
    end
    for i = 1, choice:more() do
        best, state, load, latency = better(self, now, best, state, load, latency, choice:look(i))
        if load == 0 and state ~= FAILING then
            return best
        end
    end
    return best
end


local hcl = candidates.picker{ pick = pick, by_in_flight = true }
local new = hcl.new


--- Make a picker without peers. The loads begin at 0: until the first quantile, all peers are hot.
function hcl.new(context)
    local self = new(context)
    self.loads, self.highest = ffi.new("double[?]", LOADS_KEPT), ffi.new("double[?]", QUANTILE_RANK)
    self.drawn, self.hot_from = 0, 0
    self.stats:keep_levels()
    return self
end


return hcl
