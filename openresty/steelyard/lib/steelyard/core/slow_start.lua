--- Slow start: a peer that health had taken out comes back with a part of its weight, which grows to all of it.
--
-- Its caches are cold, its connections are not open yet, and what made it fail may not be over. The part grows in
-- steps, because each one makes the picker begin its cycle anew. Pure.

-- From a tenth on, as Envoy's min_weight_percent.
local STEPS = 10

-- What a weight must be, in the mean, so that a tenth of it can be told from all of it. The controller's are.
local FINE = 20

-- Rows between two calls of breathe.
local ROWS = 100

local NOBODY = {}

local _M = {}
local mt = { __index = _M }


--- Make a slow start in which nobody starts.
-- @param seconds how long one takes; 0: there is none
function _M.new(seconds)
    return setmetatable({ seconds = seconds, since = {}, steps = NOBODY }, mt)
end


--- Who starts, and how far it is: id -> step of STEPS. The same table as before while nothing has changed.
-- @param before, after the peers that are out (id -> anything), at the last call and now
function _M:update(before, after, now)
    if self.seconds == 0 then
        return NOBODY
    end
    local since, steps, changed = self.since, {}, false
    for id in pairs(before) do
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


--- The peers with the weights of those that start reduced.
function _M.held(peers, steps, breathe)
    if next(steps) == nil then
        return peers
    end
    local total = 0
    for i = 1, #peers do
        total = total + peers[i].weight
    end
    local times, held = math.max(1, math.ceil(FINE * #peers / math.max(1, total))), {}
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
        breathe(i, ROWS)
    end
    return held
end


return _M
