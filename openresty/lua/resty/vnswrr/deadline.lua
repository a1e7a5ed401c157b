--- Earliest-deadline order: what SWRR's order becomes when there are many slots.
--
-- Peer i's k-th virtual node of a cycle is due at
--
--   d_i(k) = (k - phase_i) / w_i        k = 1..w_i; phase_i within [0, 1)
--
-- and virtual nodes are picked as they fall due (ties: the first peer). A step
-- is O(log peers), and the state at any slot is a formula: that is what makes
-- a uniform start possible without unrolling what lies before it.
--
-- The phases are what keeps it smooth. With one phase for all, a thousand
-- peers of weight 1 would fall due together, in one burst between two halves
-- of their heavy neighbour. Phases spread evenly (golden ratio) within the
-- peers of one weight; from weight to weight by a quadratic sequence, since a
-- linear one meets the weights 1, 2, 3, ... again in common deadlines.
--
-- Deadlines are rounded doubles, but each is always computed in the same way
-- and never compared across cycles: so the order of a cycle is one fixed
-- permutation, wherever it is entered. Pure.

local GOLDEN = (math.sqrt(5) - 1) / 2
local NEVER = 1 / 0

local _M = {}
local mt = { __index = _M }


local function phases_of(weights)
    local class_offset, class_size, classes = {}, {}, 0
    local phases = {}
    for i = 1, #weights do
        local weight = weights[i]
        if not class_size[weight] then
            classes = classes + 1
            class_size[weight] = 0
            class_offset[weight] = classes * classes * math.sqrt(2) % 1
        end
        phases[i] = (class_offset[weight] + class_size[weight] * GOLDEN) % 1
        class_size[weight] = class_size[weight] + 1
    end
    return phases
end


--- The virtual node number `start` of 0..total-1, counted peer by peer. Any
-- numbering will do: it makes a uniform `start` a uniform slot of the cycle.
local function virtual_node(weights, start)
    for i = 1, #weights do
        if start < weights[i] then
            return i, start + 1
        end
        start = start - weights[i]
    end
end


local function heapify(self)
    for root = math.floor(#self.heap / 2), 1, -1 do
        self:sift(root)
    end
end


--- Begin at the virtual node that has the number `start`.
function _M.new(weights, total, start)
    local phases = phases_of(weights)
    local first, first_k = virtual_node(weights, start)
    local at = (first_k - phases[first]) / weights[first]
    local ks, due, heap = {}, {}, {}
    local left = total -- of this cycle
    for i = 1, #weights do
        local weight, phase = weights[i], phases[i]
        -- The first k that is not before (at, first). The formula may be one
        -- off by rounding; the very numbers that make the order settle it.
        local k = math.max(1, math.floor(at * weight + phase))
        while k <= weight and ((k - phase) / weight < at or ((k - phase) / weight == at and i < first)) do
            k = k + 1
        end
        left = left - (k - 1)
        ks[i], due[i], heap[i] = k, k <= weight and (k - phase) / weight or NEVER, i
    end
    local self = setmetatable({
        weights = weights, phases = phases, total = total, left = left,
        ks = ks, due = due, heap = heap,
    }, mt)
    heapify(self)
    return self
end


local function next_cycle(self)
    local weights, phases, ks, due = self.weights, self.phases, self.ks, self.due
    for i = 1, #weights do
        ks[i], due[i] = 1, (1 - phases[i]) / weights[i]
    end
    self.left = self.total
    heapify(self)
end


--- Restore the heap (the earliest first, then the first peer) below `node`.
function _M:sift(node)
    local heap, due = self.heap, self.due
    local size = #self.weights
    local peer = heap[node]
    local when = due[peer]
    while true do
        local child = 2 * node
        if child > size then
            break
        end
        local earlier, right = heap[child], heap[child + 1]
        if right and (due[right] < due[earlier] or (due[right] == due[earlier] and right < earlier)) then
            child, earlier = child + 1, right
        end
        if when < due[earlier] or (when == due[earlier] and peer < earlier) then
            break
        end
        heap[node] = earlier
        node = child
    end
    heap[node] = peer
end


--- Write the next ids to ring[from..upto].
function _M:fill(ring, ids, from, upto)
    local weights, phases, ks, due, heap = self.weights, self.phases, self.ks, self.due, self.heap
    for slot = from, upto do
        if self.left == 0 then
            next_cycle(self)
        end
        local peer = heap[1]
        local k = ks[peer] + 1
        ks[peer] = k
        due[peer] = k <= weights[peer] and (k - phases[peer]) / weights[peer] or NEVER
        ring[slot] = ids[peer]
        self.left = self.left - 1
        self:sift(1)
    end
end


return _M
