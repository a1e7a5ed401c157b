--- Pick by Prequal's hot-cold rule, of three: the ring's next peer and two others; while that is busy, of more.
--
--   load     in_flight / (weight / mean weight)
--   hot      load >= the Q_RIF quantile of the loads that this worker drew lately, one a pick
--   pick     of the cold ones the least latency; where all are hot, the least load
--
-- Wydrowski et al., "Load is not what you should balance: Introducing Prequal" (NSDI
-- 2024). A peer's latency is what requests met lately that found as much in flight
-- there as it has now (core/latency_by_level).
--
-- Prequal's clients ask the servers, three a query, and keep the answers in a pool.
-- What this nginx has in flight is at hand and never old: so there is no probe and no
-- pool; of what other load balancers sent there it sees the latency alone. Prequal has
-- no weights. Here they are in the draws, and what is in flight counts against them:
-- at rest the control plane's shares hold.
--
-- Of two with one latency the lesser load wins, and on a tie of load the ring's peer:
-- so a cluster at rest, where all are hot, is served in the ring's order. Two rules of
-- the other pickers (core/pickers/candidates) come first: a failing peer is only taken
-- when all are; and one that is as idle as the other, or wholly, but over 5 times
-- as slow as the other with its queue, is left so. Prequal has no such rule, and where
-- requests come in bursts a slow server gets those that the hot ones may not have.
--
-- As in peak_ewma a peer without a latency costs nothing while it has nothing in
-- flight, and otherwise loses to every known one; a known one costs at least 1 ms.
-- O(1). Pure.

local ffi = require "ffi"
local candidates = require "steelyard.core.pickers.candidates"

local failing, max = candidates.failing, math.max
local SLOWER, CLOCK_MS, UNKNOWN_MS = candidates.SLOWER, candidates.CLOCK_MS, candidates.UNKNOWN_MS

local Q_RIF = 0.84

-- The draws that the quantile is taken of, and how many picks it is good for: a
-- thirtieth of 2 us for each.
local DRAWS, PICKS = 64, 32

-- The quantile is the least of so many of the highest loads.
local HIGHEST = DRAWS - math.ceil(Q_RIF * DRAWS) + 1

local COLD, HOT, FAILING = 0, 1, 2


--- The Q_RIF quantile of the recent loads. `highest` is room to sort in, from the highest on.
local function quantile(loads, highest)
    for i = 0, HIGHEST - 1 do
        highest[i] = -1
    end
    for i = 0, DRAWS - 1 do
        local load = loads[i]
        if load > highest[HIGHEST - 1] then
            local at = HIGHEST - 1
            while at > 0 and highest[at - 1] < load do
                highest[at] = highest[at - 1]
                at = at - 1
            end
            highest[at] = load
        end
    end
    return highest[HIGHEST - 1]
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


--- Note the load of a draw, and now and then take the quantile anew.
local function note(self, load)
    local drawn = self.drawn
    self.loads[drawn] = load
    if drawn % PICKS == 0 then
        self.hot_from = quantile(self.loads, self.highest)
    end
    self.drawn = (drawn + 1) % DRAWS
end


--- Whether a candidate of that load and latency is left idle for another.
local function is_late(load, latency, to_load, to_latency)
    return to_latency > 0 and latency > SLOWER * to_latency and (load == 0 or load == to_load)
end


--- Whether a candidate of that state, load and latency loses to another.
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


--- The better of the best so far and another peer, and what was judged of it; and the other's load.
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


--- Make a picker without peers. What it has drawn is nothing in flight: until it knows better, all are hot.
function hcl.new(context)
    local self = new(context)
    self.loads, self.highest = ffi.new("double[?]", DRAWS), ffi.new("double[?]", HIGHEST)
    self.drawn, self.hot_from = 0, 0
    self.stats:keep_levels()
    return self
end


return hcl
