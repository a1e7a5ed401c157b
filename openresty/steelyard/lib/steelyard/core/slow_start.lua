--- Slow start: a peer taken out by health returns with a part of its weight, which then grows to all of it.
--
-- Its caches are cold, its connections are not open yet, and the cause of its failure may not be over. The part grows
-- in steps, because each one makes the picker begin its cycle again. A new server's slow start is in its weight, by the
-- controller's law: laws/steelyard/slow_start.py. Pure.

-- Steps of the part; it begins at a tenth, as with Envoy's min_weight_percent.
local STEPS = 10

-- The least mean weight for which a tenth of it differs from all of it. The controller's weights have it.
local MIN_MEAN_WEIGHT = 20

-- Rows between two calls of breathe().
local ROWS_PER_BREATH = 100

local NONE_STARTING = {}

local _M = {}
local mt = { __index = _M }


--- Make a slow start without a starting peer.
-- @param seconds how long a start takes; 0: there is none
function _M.new(seconds)
    return setmetatable({ seconds = seconds, since = {}, steps = NONE_STARTING }, mt)
end


--- Return the starting peers, id -> step of STEPS. It is the same table as before while nothing has changed.
-- @param previous peers that were out at the last call (id -> anything)
-- @param after    peers that are out now
function _M:update(previous, after, now)
    if self.seconds == 0 then
        return NONE_STARTING
    end
    local since, steps, changed = self.since, {}, false
    for id in pairs(previous) do
        since[id] = not after[id] and now or nil
    end
    for id, began in pairs(since) do
        local step = 1 + math.floor(STEPS * math.max(0, now - began) / self.seconds)
        if after[id] or step >= STEPS then
            since[id] = nil
        else
            steps[id], changed = step, changed or self.steps[id] ~= step
        end
    end
    for id in pairs(self.steps) do
        changed = changed or not steps[id]
    end
    if changed then
        self.steps = steps
    end
    return self.steps
end


--- Return the peers, with reduced weights for starting ones.
function _M.held(peers, steps, breathe)
    if next(steps) == nil then
        return peers
    end
    local total = 0
    for i = 1, #peers do
        total = total + peers[i].weight
    end
    local times, held = math.max(1, math.ceil(MIN_MEAN_WEIGHT * #peers / math.max(1, total))), {}
    for i = 1, #peers do
        local peer = {}
        for key, value in pairs(peers[i]) do
            peer[key] = value
        end
        local step = steps[peer.id]
        if peer.weight > 0 then
            peer.weight = math.max(1, math.floor(peer.weight * times * (step or STEPS) / STEPS + 0.5))
        end
        held[i] = peer
        breathe(i, ROWS_PER_BREATH)
    end
    return held
end


return _M
