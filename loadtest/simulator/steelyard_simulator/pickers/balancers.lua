--- The product's pickers for many load balancers in one LuaJIT. Each has
-- its own peer stats and clock, as in its own nginx.
--
-- There is one call for a pick and one for an answer, because a call from
-- outside costs more than the pick itself. Servers are numbered from 0, like
-- their cells.

local ffi = require "ffi"
local no_pause = require("resty.vnswrr").no_pause
local others_in_flight = require "steelyard.core.others_in_flight"
local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"
local request_cost = require "steelyard.core.request_cost"
local subset = require "steelyard.core.subset"

-- nginx's clock when the simulation begins: long after 1970, so that a
-- cell's first sample counts in full.
local START_S = 1e6


local function milliseconds(seconds)
    return math.floor(seconds * 1000) -- nginx's clock
end


local baselines -- of the first table
local subset_size, balancers, made, reporters = 0, 1, 0, {} -- made: balancers made so far; reporters: names of all


--- The eligible peers of a table, in id order, as a picker's update takes them.
-- @param groups of the servers, or nil
local function peers_of(weights, groups)
    local peers = {}
    baselines = baselines or weights
    for i = 1, #weights do
        if weights[i] > 0 then
            local id = string.format("server-%06d", i)
            peers[#peers + 1] = {
                id = id, address = id, weight = weights[i], baseline = baselines[i], state = "up", cell = i - 1,
                group = groups and groups[i],
            }
        end
    end
    return peers
end


local sums -- requests in flight that all balancers have reported to the store, by cell
local held -- requests in flight, by cell


--- Make a balancer: functions to pick at a time, record an answer, take peers, and exchange requests in flight.
-- @param exchange_s interval of exchanges; 0: none
-- @param priced     whether pick gets each request's cost
-- @param in_answers whether servers report their requests in flight in each answer
local function balancer(name, servers, exchange_s, priced, in_answers)
    local stats, now = peer_stats.new(peer_stats.local_memory(servers), 1, servers, 0), START_S
    local others = exchange_s > 0 and others_in_flight.new(nil, servers) or nil
    sums, held = sums or ffi.new("double[?]", servers), held or ffi.new("double[?]", servers)
    local costs, weights, by_cell = request_cost.new(), {}, {}
    local picker, _, err = pickers.make(name, {
        random = math.random, stats = priced and stats:by_cost() or stats, now = function() return now end,
        others = others,
        -- For pickers by a key, as in examples/inference.conf; a table stands in for a lua_shared_dict.
        name = "", remember_keys = priced and "keys" or nil, shared = { keys = { get = rawget, set = rawset } },
    })
    if err then
        error(err)
    end
    -- Requests in flight at a request's arrival, by cell and time; two of one moment met nearly the same.
    local met = {}
    if stats.by_level then
        for cell = 0, servers - 1 do
            met[cell] = {}
        end
    end
    local function pick(at, cost, key)
        now = START_S + at
        local cell = picker:pick(key).cell
        if met[cell] then
            met[cell][at] = stats:in_flight(cell)
        end
        stats:raise(cell)
        held[cell] = held[cell] + 1
        if cost then
            weights[at] = costs:weigh(cost)
            stats:weigh(cell, weights[at] - 1)
        end
        return cell
    end
    -- @param first when a streamed answer began; default: `at`
    local function answered(cell, sent, at, ok, first)
        if in_answers and ok and picker.note_reported then
            picker:note_reported(by_cell[cell], held[cell], START_S + at)
        end
        held[cell] = held[cell] - 1
        stats:lower(cell)
        local weight = weights[sent]
        if weight then
            stats:weigh(cell, 1 - weight)
            weights[sent] = nil
        end
        local in_flight
        if met[cell] then
            in_flight, met[cell][sent] = met[cell][sent], nil
        end
        stats:observe(cell, milliseconds(first or at) - milliseconds(sent), ok, START_S + at, in_flight)
    end
    local chosen = subset_size > 0 and subset.new(subset_size, "edge-" .. made % balancers + 1)
    made = made + 1
    local function update(peers)
        if chosen then
            peers = chosen:table_of({ peers = peers, reporters = reporters }, {}, no_pause).peers
        end
        picker:update(peers)
        if picker.note_others then
            picker:note_others(balancers > 1)
        end
        for i = 1, #peers do
            by_cell[peers[i].cell] = peers[i]
        end
    end
    local function exchange(at)
        for cell = 0, servers - 1 do
            local own = stats:own(cell)
            sums[cell] = sums[cell] + own - others.sent[cell]
            others.sent[cell] = own
            stats:set_others(cell, others:of_sum(cell, sums[cell]))
        end
        others:read(START_S + at, exchange_s)
        others:look(START_S + at)
    end
    return pick, answered, update, exchange
end


--- Begin a run.
-- @param size of the subsets of n balancers; 0 means all servers
local function begin(seed, size, n)
    math.randomseed(seed)
    subset_size, balancers = size, n
    for i = 1, n do
        reporters["edge-" .. i] = true
    end
end


return { balancer = balancer, peers_of = peers_of, begin = begin }
