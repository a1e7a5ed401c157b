local hash_ring = require "steelyard.core.hash_ring"
local no_pause = require("resty.vnswrr").no_pause
local subset = require "steelyard.core.subset"
local upstream = require "steelyard.core.upstream"

local NOBODY = {}


local function peer(number, baseline, state)
    return {
        id = string.format("server-%04d", number), address = "10.0.0.1:" .. number, state = state or "up",
        baseline = baseline, weight = 20 * baseline, cell = number,
    }
end


--- Servers of these baselines, in turn.
local function fleet(n, baselines)
    local peers = {}
    for i = 1, n do
        peers[i] = peer(i, baselines[(i - 1) % #baselines + 1])
    end
    return peers
end


local function balancers(n)
    local names = {}
    for i = 1, n do
        names[string.format("edge-%03d", i)] = true
    end
    return names
end


--- Return the servers of one load balancer for a table of these peers.
local function served_by(lb, peers, reporters, size, unhealthy)
    local made = subset.new(size, lb)
    return made:table_of({ peers = peers, reporters = reporters, term = 7 }, unhealthy or NOBODY, no_pause), made
end


--- The peers of each load balancer's subset.
local function all_subsets(peers, reporters, size)
    local lists = {}
    for lb in pairs(reporters) do
        lists[lb] = served_by(lb, peers, reporters, size).peers
    end
    return lists
end


--- Return the requests at each server if every load balancer spreads one by weight.
local function spread(lists)
    local got = {}
    for _, peers in pairs(lists) do
        local total = 0
        for i = 1, #peers do
            total = total + peers[i].weight
        end
        for i = 1, #peers do
            got[peers[i].id] = (got[peers[i].id] or 0) + peers[i].weight / total
        end
    end
    return got
end


--- Count the new connections between load balancers and servers that were there before and after.
local function moved(before, after, new_server)
    local n, all = 0, 0
    for lb, peers in pairs(after) do
        local had = {}
        for _, each in ipairs(before[lb] or NOBODY) do
            had[each.id] = true
        end
        all = all + #peers
        for _, each in ipairs(before[lb] and peers or NOBODY) do
            n = n + ((had[each.id] or each.id == new_server) and 0 or 1)
        end
    end
    return n, all
end


local function out(peers, first, last)
    local unhealthy = {}
    for i = first, last do
        unhealthy[peers[i].id] = {}
    end
    return unhealthy
end


local function weight_in_health(peers, unhealthy)
    local weight = 0
    for i = 1, #peers do
        weight = weight + (unhealthy[peers[i].id] and 0 or peers[i].weight)
    end
    return weight
end


describe("a subset", function()
    it("is chosen so that all servers together get their weights, with any numbers", function()
        for _, case in ipairs({ { 2000, 64, 100 }, { 300, 10, 50 }, { 40, 7, 10 }, { 12, 30, 5 }, { 7, 3, 6 } }) do
            local n, lbs, size = unpack(case)
            local peers, total = fleet(n, { 20, 30, 40, 50 }), 0
            for i = 1, n do
                total = total + peers[i].weight
            end
            local lists = all_subsets(peers, balancers(lbs), size)
            local got = spread(lists)
            for i = 1, n do
                assert.near(lbs * peers[i].weight / total, got[peers[i].id], 0.01 * lbs * peers[i].weight / total)
            end
            for _, each in pairs(lists) do
                assert.is_true(#each >= math.min(n, size) - 1 - size / 20, #each .. " servers in a subset of " .. size)
            end
        end
    end)

    it("is nearly as good if the baselines are unknown", function()
        local peers, total, astray, least, most = fleet(2000, { 20 }), 0, 0, math.huge, 0
        for i = 1, #peers do
            peers[i].weight = ({ 20, 30, 40, 50 })[i % 4 + 1]
            total = total + peers[i].weight
        end
        local got = spread(all_subsets(peers, balancers(64), 100))
        for i = 1, #peers do
            local its, due = got[peers[i].id] / 64, peers[i].weight / total
            least, most = math.min(least, its / due), math.max(most, its / due)
            astray = astray + math.abs(its - due) / 2
        end
        assert.near(0.97, least, 0.02)
        assert.near(1.05, most, 0.02)
        assert.near(0.008, astray, 0.002)
    end)

    it("has about as many servers as asked for, and each server about as many load balancers", function()
        local by_server = {}
        for _, peers in pairs(all_subsets(fleet(2000, { 20 }), balancers(64), 100)) do
            assert.is_true(#peers >= 100 and #peers <= 127, #peers .. " servers")
            for _, each in ipairs(peers) do
                by_server[each.id] = (by_server[each.id] or 0) + 1
            end
        end
        for i = 1, 2000 do
            local lbs = by_server[peer(i, 20).id]
            assert.is_true(lbs == 4 or lbs == 5, tostring(lbs))
        end
    end)

    it("stays if weights change, and hardly moves when a server or a load balancer comes", function()
        local before = all_subsets(fleet(2000, { 20, 40 }), balancers(64), 100)
        local ticked = fleet(2000, { 20, 40 })
        for i = 1, #ticked do
            ticked[i].weight = 200 + i % 700
        end
        assert.equal(0, (moved(before, all_subsets(ticked, balancers(64), 100))))
        local more = fleet(2000, { 20, 40 })
        more[2001] = peer(2001, 30)
        local n, all = moved(before, all_subsets(more, balancers(64), 100), more[2001].id)
        assert.is_true(n <= 0.01 * all, n .. " of " .. all)
        n, all = moved(before, all_subsets(fleet(2000, { 20, 40 }), balancers(65), 100))
        assert.is_true(n > 0 and n <= 0.2 * all, n .. " of " .. all)
    end)

    it("is all servers while the load balancers are unknown, with few servers, and in zones", function()
        local peers = fleet(50, { 20 })
        assert.equal(peers, served_by("edge-001", peers, nil, 10).peers)
        assert.equal(peers, served_by("edge-001", peers, balancers(1), 10).peers)
        assert.equal(peers, served_by("edge-001", peers, balancers(8), 50).peers)
        local zoned = { peers = peers, reporters = balancers(8), zones = {} }
        assert.equal(peers, subset.new(10, "edge-001"):table_of(zoned, NOBODY, no_pause).peers)
        local served, made = served_by("edge-001", peers, balancers(8), 10)
        assert.is_true(#served.peers < 20)
        assert.same({ of = 50, balancers = 8, widened_by = 0, servers = #served.peers, place = made.about.place },
                    made.about)
        assert.equal(7, served.term)
        assert.equal(peers, served.all)
    end)

    it("is, of a load balancer that the table does not name yet, the one that it will have", function()
        local peers = fleet(200, { 20 })
        assert.same(served_by("edge-009", peers, balancers(9), 20).peers,
                    served_by("edge-009", peers, balancers(8), 20).peers)
    end)

    it("is extended if more than a quarter of it is unhealthy, and no sooner", function()
        local peers = fleet(400, { 20, 40 })
        local usual = served_by("edge-003", peers, balancers(20), 40).peers
        local whole, n = weight_in_health(usual, NOBODY), #usual
        local few = out(usual, 1, math.floor(n / 5))
        assert.equal(n, #served_by("edge-003", peers, balancers(20), 40, few).peers)
        for _, part in ipairs({ 0.4, 0.7, 1 }) do
            local many = out(usual, 1, math.floor(part * n))
            local served, made = served_by("edge-003", peers, balancers(20), 40, many)
            assert.near(0.75 * whole, weight_in_health(served.peers, many), 0.02 * whole)
            assert.near(#served.peers - n, made.about.widened_by, 1)
            local has = {}
            for _, each in ipairs(served.peers) do
                has[each.id] = true
            end
            for _, each in ipairs(usual) do
                assert.is_true(has[each.id]) -- and notices when those are back
            end
        end
    end)

    it("is all servers when all are out of health", function()
        local peers = fleet(60, { 20, 30 })
        local served = served_by("edge-002", peers, balancers(6), 12, out(peers, 1, 60))
        assert.same(peers, served.peers)
    end)

    it("goes by the servers that are up, has the drained ones at its place, and every backup", function()
        local peers = fleet(200, { 20 })
        for i = 1, 200, 2 do
            peers[i] = peer(i, 20, i < 20 and "backup" or "drain")
        end
        local states = {}
        local lists = all_subsets(peers, balancers(10), 20)
        for _, list in pairs(lists) do
            for _, each in ipairs(list) do
                states[each.state] = (states[each.state] or 0) + 1
            end
        end
        assert.equal(10 * 10, states.backup)
        assert.is_true(states.up >= 200 and states.up <= 220, states.up .. " in 10 subsets of 20")
        assert.is_true(states.drain > 100 and states.drain < 220, states.drain .. " drained")
    end)

    it("is the same list while neither table nor health changes, and without the option there is none", function()
        local peers = fleet(100, { 20 })
        local made = subset.new(10, "edge-001")
        local known = { peers = peers, reporters = balancers(9) }
        local first = made:table_of(known, NOBODY, no_pause)
        assert.equal(first, made:table_of(known, NOBODY, no_pause))
        local later = made:table_of({ peers = peers, reporters = balancers(9), term = 8 }, NOBODY, no_pause)
        assert.equal(first.peers, later.peers)
        assert.equal(8, later.term)
        assert.not_equal(first.peers,
                         made:table_of({ peers = peers, reporters = balancers(10) }, NOBODY, no_pause).peers)
        assert.not_equal(first, made:table_of(known, out(peers, 1, 3), no_pause))
        assert.falsy(upstream.new("web", { retries = 2 }, { stats = {}, now = os.time }).subset)
    end)
end)


--- Deterministic subsetting (Site Reliability Engineering, chapter 20): load balancers come in rounds, and each round
-- deals out the servers once, in an order of its own.
local function dealt(peers, reporters, size)
    local lists, per_round, names = {}, math.floor(#peers / size), {}
    for lb in pairs(reporters) do
        names[#names + 1] = lb
    end
    table.sort(names)
    for number, lb in ipairs(names) do
        local round, place, order = math.floor((number - 1) / per_round), (number - 1) % per_round, {}
        for i = 1, #peers do
            order[i] = peers[i]
        end
        math.randomseed(round)
        for i = #order, 2, -1 do
            local j = math.random(i)
            order[i], order[j] = order[j], order[i]
        end
        lists[lb] = { unpack(order, place * size + 1, place * size + size) }
    end
    return lists
end


--- Rendezvous hashing: each load balancer has the servers with the largest hashes with its own name.
local function by_rendezvous(peers, reporters, size)
    local lists = {}
    for lb in pairs(reporters) do
        local rows = {}
        for i, each in ipairs(peers) do
            rows[i] = { hash_ring.hash(lb .. each.id), each }
        end
        table.sort(rows, function(a, b) return a[1] > b[1] end)
        lists[lb] = {}
        for i = 1, size do
            lists[lb][i] = rows[i][2]
        end
    end
    return lists
end


describe("a way to choose subsets", function()
    -- The table in docs/research/scaling.md; the share of newly opened connections in %.
    for _, case in ipairs({
        { "the ring", all_subsets, least = 1, most = 1, by_server = 0.25, by_lb = 12 },
        { "dealt out in rounds", dealt, least = 0.89, most = 1.3, by_server = 50, by_lb = 49 },
        { "rendezvous hashing", by_rendezvous, least = 0, most = 3.15, by_server = 0, by_lb = 0 },
    }) do
        local name, choose = unpack(case)
        it("has the loads and the movement that the documentation says: " .. name, function()
            local peers, reporters, total = fleet(2000, { 20, 30, 40, 50 }), balancers(64), 0
            for i = 1, #peers do
                total = total + peers[i].weight
            end
            local before = choose(peers, reporters, 100)
            local got, least, most = spread(before), math.huge, 0
            for i = 1, #peers do
                local load = (got[peers[i].id] or 0) / 64 / (peers[i].weight / total)
                least, most = math.min(least, load), math.max(most, load)
            end
            local more = fleet(2000, { 20, 30, 40, 50 })
            table.insert(more, 701, peer(7000, 30)) -- in the middle, as a name would be
            local n, all = moved(before, choose(more, reporters, 100), more[701].id)
            local by_server = 100 * n / all
            local one_more = balancers(64)
            one_more["edge-032a"] = true
            n, all = moved(before, choose(peers, one_more, 100))
            local words = string.format("%.2f..%.2f %.2f %% %.2f %%", least, most, by_server, 100 * n / all)
            assert.near(case.least, least, 0.02, words)
            assert.near(case.most, most, 0.02 * case.most, words)
            assert.near(case.by_server, by_server, 0.1 + 0.05 * case.by_server, words)
            assert.near(case.by_lb, 100 * n / all, 0.1 + 0.05 * case.by_lb, words)
        end)
    end
end)
