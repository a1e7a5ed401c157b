local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local others_in_flight = require "steelyard.core.others_in_flight"
local peer_stats = require "steelyard.core.peer_stats"
local pickers = require "steelyard.core.pickers"
local upstream = require "steelyard.core.upstream"

local KEYS = 4000


--- Peers of these baselines, each with that weight or with its weight in `weights`.
local function peers_of(baselines, weights)
    local peers = {}
    for i = 1, #baselines do
        local id = string.format("server-%04d", i)
        peers[i] = {
            id = id, address = id .. ":80", state = "up", cell = i,
            baseline = baselines[i], weight = weights and weights[i] or baselines[i],
        }
    end
    return peers
end


local function equal(n)
    local baselines = {}
    for i = 1, n do
        baselines[i] = 20
    end
    return peers_of(baselines)
end


local function without(peers, gone)
    local left = {}
    for i = 1, #peers do
        if i ~= gone then
            left[#left + 1] = peers[i]
        end
    end
    return left
end


--- A picker over peers, its stats, and a clock that can be set.
local function picker_of(peers, context, name)
    local clock = { now = 1e6 }
    local made = {
        stats = peer_stats.new(peer_stats.local_memory(3000), 1, 3000, 0),
        random = math.random, now = function() return clock.now end,
    }
    for key, value in pairs(context or {}) do
        made[key] = value
    end
    local picker = pickers.make(name or "bounded_hash", made)
    picker:update(peers)
    return picker, made.stats, clock
end


--- Return the peer of each key at rest.
local function map_of(picker)
    local map = {}
    for i = 1, KEYS do
        map[i] = picker:pick("key-" .. i).id
    end
    return map
end


--- Return the share of moved keys, and how many of them neither came from nor went to `id`.
local function moved(before, after, id)
    local n, needless = 0, 0
    for i = 1, KEYS do
        if before[i] ~= after[i] then
            n = n + 1
            needless = needless + ((before[i] ~= id and after[i] ~= id) and 1 or 0)
        end
    end
    return n / KEYS, needless
end


describe("picker bounded_hash", function()
    before_each(function() math.randomseed(20261126) end)

    it("never exceeds a server's bound, and always finds a server, with any weights", function()
        for case = 1, 60 do
            local n, baselines, weights, factor = math.random(1, 30), {}, {}, 1 + math.random(0, 3) / 4
            local total = 0
            for i = 1, n do
                baselines[i], weights[i] = math.random(1, 40), math.random(1, 40)
                total = total + weights[i]
            end
            local picker, stats = picker_of(peers_of(baselines, weights), { hash_balance_factor = factor })
            local held = {}
            for pick = 1, 300 do
                if #held > 0 and math.random(4) == 1 then
                    stats:lower(table.remove(held, math.random(#held)))
                end
                local peer, place = picker:pick("key-" .. math.random(1, case))
                local bound = math.ceil(factor * peer.weight / total * (picker.in_flight + 1) - 1e-9)
                assert.is_true(n > 16 or picker.in_flight == #held) -- with more peers, the sum is some picks old
                assert.is_true(stats:in_flight(peer.cell) + 1 <= bound, "pick " .. pick .. " of case " .. case)
                assert.truthy(place)
                stats:raise(peer.cell)
                held[#held + 1] = peer.cell
            end
        end
    end)

    it("moves the keys of a server that leaves and no others, and gives them back", function()
        for _, n in ipairs({ 2, 5, 24, 120 }) do
            local peers = equal(n)
            local picker = picker_of(peers)
            local before = map_of(picker)
            for gone = 1, math.min(n, 3) do
                picker:update(without(peers, gone))
                local share, needless = moved(before, map_of(picker), peers[gone].id)
                assert.equal(0, needless)
                assert.near(1 / n, share, 0.5 / n)
                picker:update(peers)
                assert.same(before, map_of(picker))
            end
        end
    end)

    it("moves, of unequal servers, little more than the share of one that leaves", function()
        local baselines, total = {}, 0
        for i = 1, 30 do
            baselines[i] = ({ 5, 20, 80 })[i % 3 + 1]
            total = total + baselines[i]
        end
        local peers = peers_of(baselines)
        local picker = picker_of(peers)
        local before = map_of(picker)
        for gone = 1, 6 do
            picker:update(without(peers, gone))
            local share, of_it = moved(before, map_of(picker), peers[gone].id), baselines[gone] / total
            assert.is_true(share < 1.5 * of_it + math.abs(of_it - 1 / 30) + 0.01, gone .. " moved " .. share)
        end
    end)

    it("moves the keys of one that is out and no others, however unequal they are", function()
        local peers = peers_of({ 5, 20, 80, 5, 20, 80 })
        local picker = picker_of(peers)
        local before = map_of(picker)
        for gone = 1, 6 do
            picker:update(without(peers, gone), nil, peers)
            local share, needless = moved(before, map_of(picker), peers[gone].id)
            assert.equal(0, needless)
            assert.is_true(share > 0)
        end
    end)

    it("has no bound as chash, and belongs to the same keys", function()
        local picker, stats = picker_of(equal(4), nil, "chash")
        assert.same(map_of((picker_of(equal(4)))), map_of(picker))
        local first = picker:pick("key")
        for _ = 1, 1000 do
            stats:raise(first.cell)
        end
        assert.equal(first, picker:pick("key"))
    end)

    it("gives servers keys by their baselines", function()
        local counts = {}
        for _, id in ipairs(map_of((picker_of(peers_of({ 10, 20, 40, 10, 20, 40 }))))) do
            counts[id] = (counts[id] or 0) + 1
        end
        for i, baseline in ipairs({ 10, 20, 40, 10, 20, 40 }) do
            local share = baseline / 140
            local deviation = 1 / math.sqrt(64 * 6 * share) -- with this number of points
            assert.near(1, counts[string.format("server-%04d", i)] / KEYS / share, 3 * deviation)
        end
    end)

    it("moves no key if only the weights of the moment change", function()
        local picker = picker_of(equal(12))
        local before, ring = map_of(picker), picker.ring
        local weights = {}
        for i = 1, 12 do
            weights[i] = math.random(1, 40)
        end
        local peers = equal(12)
        for i = 1, 12 do
            peers[i].weight = weights[i]
        end
        picker:update(peers)
        assert.equal(ring, picker.ring) -- and builds nothing
        assert.same(before, map_of(picker))
        assert.equal(weights[1], picker.peers[1].weight)
    end)

    it("has a second choice that stays when others leave", function()
        local peers = equal(10)
        local picker, stats = picker_of(peers)
        local first = picker:pick("key")
        for _ = 1, 100 do
            stats:raise(first.cell)
        end
        local second = picker:pick("key")
        assert.are_not.equal(first, second)
        for gone = 1, 10 do
            if peers[gone] ~= first and peers[gone] ~= second then
                picker:update(without(peers, gone))
                assert.equal(second, picker:pick("key"))
            end
        end
        picker:update(peers)
        for _ = 1, 100 do
            stats:lower(first.cell)
        end
        assert.equal(first, picker:pick("key"))
    end)

    it("spreads the overflow of a server over many others", function()
        local picker, stats = picker_of(equal(20))
        local before = map_of(picker)
        for _ = 1, 1000 do
            stats:raise(1)
        end
        local to, n = {}, 0
        for i, id in ipairs(map_of(picker)) do
            assert.are_not.equal("server-0001", id)
            if before[i] == "server-0001" and not to[id] then
                to[id], n = true, n + 1
            end
        end
        assert.is_true(n >= 14, n .. " servers of 19")
    end)

    it("passes over a server that fails most of its tries", function()
        local picker, stats, clock = picker_of(equal(4))
        local first = picker:pick("key")
        for _ = 1, 6 do
            stats:observe(first.cell, nil, false, clock.now)
        end
        assert.are_not.equal(first, picker:pick("key"))
        clock.now = clock.now + 30
        assert.equal(first, picker:pick("key"))
    end)

    it("goes by the requests of other load balancers, too", function()
        local others = others_in_flight.new(nil, 3000)
        local picker, stats, clock = picker_of(equal(4), { others = others })
        local first = picker:pick("key")
        for _ = 1, 2 do
            stats:observe(first.cell, 100, true, clock.now)
        end
        stats:set_others(first.cell, 50)
        assert.equal(first, picker:pick("key")) -- as long as there are no figures
        others:read(clock.now, 0.005)
        others:look(clock.now)
        for _ = 1, 8 do -- it learns now and then how long a request takes
            picker:pick("key")
        end
        assert.are_not.equal(first, picker:pick("key"))
        assert.is_true(picker.by_in_flight) -- so the exchange asks for the figures of the servers
    end)

    it("goes by the requests in flight, and not by the servers' reports", function()
        local picker, stats, clock = picker_of(equal(4))
        local first = picker:pick("key")
        stats:note_reported(first.cell, 50, clock.now)
        stats:trust_reported(clock.now, 1) -- as another upstream's picker has left it
        assert.equal(50, stats:in_flight(first.cell))
        assert.equal(first, picker:pick("key"))
        assert.equal(0, stats:in_flight(first.cell))
    end)

    it("counts requests in flight at many servers in turns, and at all of them after a pause", function()
        local picker, stats, clock = picker_of(equal(2000))
        picker:pick("key")
        for cell = 1, 2000 do
            stats:raise(cell)
        end
        for _ = 1, 2000 / 16 - 1 do
            picker:pick("key")
            assert.is_true(picker.in_flight < 2000)
        end
        picker:pick("key")
        assert.equal(2000, picker.in_flight)
        for cell = 1, 2000 do
            stats:raise(cell)
        end
        clock.now = clock.now + 0.2
        picker:pick("key")
        assert.equal(4000, picker.in_flight)
    end)

    it("serves a key where it was while an update breathes", function()
        local peers = equal(300)
        local picker = picker_of(peers)
        local first = picker:pick("key")
        local breathe, breaths = counted_breaths(function()
            assert.equal(first, picker:pick("key"))
        end)
        picker:update(without(peers, first.cell), breathe)
        assert.is_true(breaths() > 50)
        assert.are_not.equal(first, picker:pick("key"))
    end)

    describe("with a memory", function()
        local function remembering(peers, factor)
            local dict = { values = {} }
            function dict.get(_, entry) return dict.values[entry] end
            function dict.set(_, entry, value) dict.values[entry] = value end
            local picker, stats = picker_of(peers, {
                name = "web", remember_keys = "keys", shared = { keys = dict }, hash_balance_factor = factor,
            })
            return picker, stats, dict
        end

        it("has a new key at the less busy of its first two, for their weights", function()
            local peers = equal(6)
            local first = picker_of(peers):pick("key")
            local picker, stats = remembering(peers, 100)
            stats:raise(first.cell)
            local second = picker:pick("key")
            assert.are_not.equal(first, second)
            assert.equal(second, picker_of(without(peers, first.cell)):pick("key"))
            first.weight = 2 * second.weight -- then one of two is as busy as none
            picker, stats = remembering(peers, 100)
            stats:raise(first.cell)
            stats:raise(second.cell)
            assert.equal(first, picker:pick("key"))
        end)

        it("keeps a key where it was, and where it has moved to, until that is full or gone", function()
            local peers = equal(6)
            local picker, stats, dict = remembering(peers, 2)
            local first = picker:pick("key")
            for cell = 1, 6 do
                stats:raise(cell)
            end
            stats:raise(first.cell)
            stats:raise(first.cell)
            assert.equal(first, picker:pick("key")) -- 3 of 8, where the bound is 3, and one more for its own last one
            for _ = 1, 8 do
                stats:raise(first.cell)
            end
            local second = picker:pick("key")
            assert.are_not.equal(first, second)
            for _ = 1, 11 do
                stats:lower(first.cell)
            end
            assert.equal(second, picker:pick("key"))
            picker:update(without(peers, second.cell))
            assert.are_not.equal(second, picker:pick("key"))
            local entry = next(dict.values)
            assert.is_nil(next(dict.values, entry))
        end)

        it("is another upstream's in the same dict, and of all workers", function()
            local peers = equal(6)
            local picker, stats, dict = remembering(peers, 100)
            local first = picker:pick("key")
            local another, others_stats = remembering(peers, 100)
            another.memory = dict
            others_stats:raise(first.cell)
            assert.equal(first, another:pick("key"))
            another.name = "shop"
            assert.are_not.equal(first, another:pick("key"))
            assert.equal(0, stats:in_flight(first.cell))
        end)

        it("names the line that nginx.conf must have for it", function()
            local context = { remember_keys = "keys", shared = {}, now = os.time, random = math.random }
            local _, name, err = pickers.make("bounded_hash", context)
            assert.equal("vnswrr2", name)
            assert.matches("add `lua_shared_dict keys 10m;`", err, 1, true)
        end)
    end)

    it("sends a retry to the next on the ring that was not tried", function()
        local live = upstream.new("web", { retries = 2, hash_variable = "request_uri" }, {
            random = math.random, now = function() return 0 end,
            stats = peer_stats.new(peer_stats.local_memory(64), 1, 64, 0),
        })
        live:take({ term = 1, generation = 1, picker = "bounded_hash", peers = equal(6) }, "fresh", 0)
        local order, seen = {}, {}
        local place = live.picker.ring:place("/a")
        for i = 0, live.picker.ring.n - 1 do
            local peer = live.eligible[live.picker.ring.owners[(place + i) % live.picker.ring.n]]
            if not seen[peer.id] then
                order[#order + 1], seen[peer.id] = peer, true
            end
        end
        assert.equal(order[1], live:first("/a"))
        assert.equal(order[2], live:another({ n = 1, order[1] }, 1, "/a"))
        assert.equal(order[3], live:another({ n = 2, order[1], order[2] }, 1, "/a"))
        for _ = 1, 50 do
            live.context.stats:raise(order[2].cell)
        end
        assert.equal(order[3], live:another({ n = 1, order[1] }, 1, "/a"))
    end)
end)
