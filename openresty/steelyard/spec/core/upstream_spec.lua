local no_pause = require("resty.vnswrr").no_pause
local fixtures = require "openresty.steelyard.spec.support.picker_fixtures"
local ladder = require "steelyard.core.ladder"
local peer_stats = require "steelyard.core.peer_stats"
local upstream = require "steelyard.core.upstream"
local weight_table = require "steelyard.core.weight_table"

local function peer(id, weight, state, address)
    return {
        id = id, address = address or id .. ":80", weight = weight, baseline = 1, state = state or "up",
        cell = string.byte(id),
    }
end


local function front() return 1 end


--- An upstream without a table, at the front of every cycle.
local function new(settings, random)
    return upstream.new("web", settings or { retries = 2 }, {
        random = random or front,
        now = function() return 0 end,
        stats = peer_stats.new(peer_stats.local_memory(256), 1, 256, 0),
    })
end


local function table_of(peers, picker)
    return { term = 1, generation = 1, picker = picker or "vnswrr", peers = peers }
end


--- An upstream at the front of its cycle.
local function serving(peers, picker)
    local live = new()
    live:take(table_of(peers, picker), "fresh", 0)
    return live
end


local function ids(live, n)
    local picked = {}
    for i = 1, n do
        picked[i] = live:first().id
    end
    return table.concat(picked, " ")
end


describe("an upstream", function()
    it("follows the weights", function()
        assert.equal("a a b a c a a", ids(serving({ peer("a", 5), peer("b", 1), peer("c", 1) }), 7))
    end)

    it("has its picker know of other load balancers, while a table names them", function()
        local live, peers = new(nil, function(n) return n end), { peer("a", 1), peer("b", 1) } -- the draw is always b
        live.context.lb = "edge-1"
        for _ = 1, 2 do
            live.context.stats:observe(peers[1].cell, 20, true, 0)
            live.context.stats:observe(peers[2].cell, 10, true, 0)
        end
        local picked = {}
        for i, reporters in ipairs({ { "edge-1" }, { "edge-1", "edge-2" }, { "edge-2" }, { "edge-1" }, {} }) do
            local named = table_of(peers, "vnswrr2")
            named.generation, named.reporters = i, {}
            for _, name in ipairs(reporters) do
                named.reporters[name] = true
            end
            live:take(named, "fresh", 0)
            picked[i] = string.find(ids(live, 4), "a", 1, true) and "both" or "the faster"
        end
        assert.same({ "both", "the faster", "the faster", "both", "both" }, picked)
    end)

    it("sends nothing new to a peer that drains or is down", function()
        local live = serving({ peer("a", 9, "drain"), peer("b", 1), peer("c", 9, "down") })
        assert.equal("b b b", ids(live, 3))
    end)

    it("finds the eligible peer at an address while it has room", function()
        local live = new({ retries = 2, max_conns = 1 })
        live:take(table_of({ peer("a", 1), peer("b", 1, "drain") }), "fresh", 0)
        assert.equal("a", live:with_room_at("a:80").id)
        live.context.stats:raise(peer("a").cell)
        assert.is_nil(live:with_room_at("a:80"))
        live.context.stats:lower(peer("a").cell)
        assert.is_nil(live:with_room_at("b:80"))
        live:take(table_of({ peer("b", 1) }), "fresh", 0)
        assert.same({ nil, "b" }, { live:with_room_at("a:80"), live:with_room_at("b:80").id })
    end)

    describe("with peers that are out", function()
        local function out(live, unhealthy, threshold)
            live.settings.panic_threshold = threshold
            local peers = { peer("a", 1), peer("b", 1), peer("c", 1), peer("d", 1, "backup") }
            live:take(table_of(peers), "fresh", 0, unhealthy)
            live:watch_half_open(peers, unhealthy)
            return live
        end

        it("names those that are half-open in turn, and a backup only when no other serves", function()
            local half_open = { half_open = true }
            local live = out(new(), { a = half_open, b = {}, c = half_open })
            assert.same({ "a", "c", "a" }, { live:suspect().id, live:suspect().id, live:suspect().id })
            assert.is_true(live:is_half_open(peer("a", 1)))
            assert.falsy(live:is_half_open(peer("b", 1)))
            assert.is_nil(out(new(), { d = half_open }):suspect())
            assert.is_nil(out(new(), { b = {} }):suspect())
        end)

        it("uses all if fewer are healthy than the panic threshold asks for", function()
            assert.equal("a a", ids(out(new(), { b = {}, c = {} }, 0.3), 2))
            local live = out(new(), { b = {}, c = {} }, 0.5)
            assert.is_true(live.fail_open)
            assert.equal("a b c", ids(live, 3))
            assert.is_nil(out(new(), { b = { half_open = true }, c = {} }, 0.5):suspect())
        end)
    end)

    it("forgets the latency of a peer after its share of the weights has doubled", function()
        local live = new()
        local stats = live.context.stats
        live:take(table_of({ peer("a", 1), peer("b", 9) }, "vnswrr2"), "fresh", 0)
        for _ = 1, 2 do
            stats:observe(peer("a").cell, 500, true, 0)
            stats:observe(peer("b").cell, 5, false, 0)
        end
        live:take(table_of({ peer("a", 1), peer("b", 5) }, "vnswrr2"), "fresh", 0)
        assert.equal(500, stats:latency(peer("a").cell, 0))
        live:take(table_of({ peer("a", 5), peer("b", 5) }, "vnswrr2"), "fresh", 0)
        assert.equal(0, stats:latency(peer("a").cell, 0))
        assert.is_true(stats:failing(peer("b").cell, 0) > 0)
    end)

    it("knows a peer to be slow again after two requests, if it is", function()
        local live = new()
        local stats = live.context.stats
        live:take(table_of({ peer("a", 1), peer("b", 9) }, "vnswrr2"), "fresh", 0)
        live:take(table_of({ peer("a", 5), peer("b", 5) }, "vnswrr2"), "fresh", 0)
        stats:observe(peer("a").cell, 500, true, 0)
        assert.equal(0, stats:latency(peer("a").cell, 0))
        stats:observe(peer("a").cell, 500, true, 0)
        assert.equal(500, stats:latency(peer("a").cell, 0))
    end)

    it("uses backups only when no other peer is eligible", function()
        assert.equal("a a a", ids(serving({ peer("a", 1), peer("b", 1, "backup") }), 3))
        assert.equal("b b b", ids(serving({ peer("a", 1, "down"), peer("b", 1, "backup") }), 3))
    end)

    it("takes a new address of a peer without restarting the ring", function()
        local live = serving({ peer("a", 2), peer("b", 1) })
        assert.equal("a b", ids(live, 2))
        live:take(table_of({ peer("a", 2, "up", "new:80"), peer("b", 1) }), "fresh", 0)
        assert.equal("new:80", live:first().address)
        assert.equal("a b", ids(live, 2))
    end)

    it("falls back to vnswrr2 for a picker it does not have, and says so", function()
        local live = serving({ peer("a", 1) }, "best")
        assert.equal("vnswrr2", live.picker_name)
        assert.equal("best", live.table.picker)
        assert.truthy(live.picker_error:find("there is no picker best", 1, true))
        assert.equal("a", ids(live, 1))
    end)

    it("goes on with the default picker and the new table while a picker of one's own raises errors", function()
        local own = { name = "mine", new = function()
            return {
                update = function(self, peers)
                    assert(#peers ~= 2, "two")
                    self.peers = peers
                end,
                pick = function(self) return self.peers[#self.peers == 3 and "no" or 1] or error("three", 0) end,
            }
        end }
        local live, reported = new({ retries = 2, picker = own }), {}
        live.context.picker_failed = function(name, method) reported[#reported + 1] = name .. " " .. method end
        local a, b, c = peer("a", 1), peer("b", 1), peer("c", 1)
        live:take(table_of({ a }), "fresh", 0)
        assert.same({ "mine", nil, "a a" }, { live.picker_name, live.picker_error, ids(live, 2) })
        local two = table_of({ a, b })
        live:take(two, "fresh", 0)
        assert.equal(two, live.table)
        assert.same({ "vnswrr2", "a b" }, { live.picker_name, ids(live, 2) })
        assert.matches("^picker mine: update: .*two", live.picker_error)
        live:take(table_of({ a, b, c }), "fresh", 0)
        assert.same({ "mine", nil, "a b c" }, { live.picker_name, live.picker_error, ids(live, 3) })
        live:take(table_of({ c }), "fresh", 0)
        assert.same({ "mine", nil, "c" }, { live.picker_name, live.picker_error, ids(live, 1) })
        assert.same({ "web update", "web pick", "web pick", "web pick" }, reported)
    end)

    it("changes its picker with the table, unless its settings name one", function()
        local live = serving({ peer("a", 1) }, "vnswrr")
        live:take(table_of({ peer("a", 1) }, "least_conn"), "fresh", 0)
        assert.equal("least_conn", live.picker_name)
        local fixed = new({ retries = 2, picker = "peak_ewma" })
        fixed:take(table_of({ peer("a", 1) }, "vnswrr"), "fresh", 0)
        assert.equal("peak_ewma", fixed.picker_name)
    end)

    it("restarts no ring for a new generation of the same weights", function()
        local live = serving({ peer("a", 2), peer("b", 1) })
        assert.equal("a b", ids(live, 2))
        local same = table_of(live.table.peers)
        same.generation = 2
        assert.is_false(live:take(same, "fresh", 0))
        assert.equal(2, live.table.generation)
        assert.equal("a a b", ids(live, 3))
    end)

    it("sends nothing to a peer that health has taken out, until it is back", function()
        local table_ab = table_of({ peer("a", 9), peer("b", 1) })
        local live = new()
        live:take(table_ab, "fresh", 0, { a = { kind = "fails" } })
        assert.equal("b b b", ids(live, 3))
        assert.is_false(live.fail_open)
        live:take(table_ab, "fresh", 0, {})
        assert.equal("a", ids(live, 1))
    end)

    it("prefers a healthy backup to an unhealthy peer", function()
        local live = new()
        live:take(table_of({ peer("a", 9), peer("b", 1, "backup") }), "fresh", 0, { a = {} })
        assert.equal("b b", ids(live, 2))
    end)

    it("uses all peers when none is healthy, but never a drained one", function()
        local live = new()
        local peers = { peer("a", 1), peer("b", 1), peer("c", 9, "drain") }
        live:take(table_of(peers), "fresh", 0, { a = {}, b = {}, c = {} })
        assert.equal("a b a b", ids(live, 4))
        assert.is_true(live.fail_open)
    end)

    it("serves the previous peers while it takes up new ones", function()
        local live = serving({ peer("a", 1) })
        local seen
        live:take(table_of({ peer("b", 1), peer("c", 1) }), "drift", 0.5, {}, function()
            seen = seen or live:first().id
        end)
        assert.is_true(seen == nil or seen == "a")
        assert.equal("b", live:first().id)
    end)

    it("picks nothing before there is a table", function()
        local live = new()
        assert.is_nil(live:first())
        assert.equal(0, live.more_tries)
        assert.equal("no weight table yet and no bootstrap list", live:why_none())
    end)

    it("says why there is no peer", function()
        assert.equal("no server is up: a is down, b is drain",
                     serving({ peer("a", 1, "down"), peer("b", 1, "drain") }):why_none())
        assert.equal("the weight table has no servers", serving({}):why_none())
    end)
end)


describe("a check and a hash key", function()
    local OURS, THEIRS = { id = "ours" }, { id = "theirs" }
    local peers = { peer("a", 1) }

    local function served(more)
        local made = { term = 1, generation = 1, picker = "vnswrr", peers = peers }
        for key, value in pairs(more or {}) do
            made[key] = value
        end
        return made
    end

    it("are nginx.conf's before there is a table, and while the table has none", function()
        local live = new({ retries = 2, check = OURS })
        assert.equal(OURS, live.check)
        live:take(served(), "fresh", 0)
        assert.equal(OURS, live.check)
    end)

    it("are the table's from the moment it is taken, without a new ring", function()
        local live = new({ retries = 2, check = OURS })
        live:take(served(), "fresh", 0, {})
        local changes = live.changes
        assert.is_false(live:take(served({ check = THEIRS }), "fresh", 0, live.unhealthy))
        assert.equal(THEIRS, live.check)
        live:take(served(), "fresh", 0, live.unhealthy)
        assert.equal(OURS, live.check)
        assert.equal(changes, live.changes)
    end)

    it("may be the table's alone", function()
        local live = new()
        live:take(served({ check = THEIRS }), "fresh", 0)
        assert.equal(THEIRS, live.check)
        live:take(served(), "fresh", 0)
        assert.is_nil(live.check)
    end)

    it("is the table's for a picker that hashes, and then a reserved choice is void", function()
        local live = new({ retries = 2, hash_variable = "remote_addr" })
        live:take(served({ hash_variable = "request_uri" }), "fresh", 0, {})
        assert.is_nil(live.hash_variable)
        live.picker.wants_key = true -- as in chash, which is not installed everywhere
        live:take(served(), "fresh", 0, live.unhealthy)
        assert.equal("remote_addr", live.hash_variable)
        local changes = live.changes
        live:take(served({ hash_variable = "request_uri" }), "fresh", 0, live.unhealthy)
        assert.equal("request_uri", live.hash_variable)
        assert.is_true(live.changes > changes)
        live:take(served(), "fresh", 0, live.unhealthy)
        assert.equal("remote_addr", live.hash_variable)
    end)
end)


describe("a retry", function()
    it("never goes to a peer already tried while another is left", function()
        local live = serving({ peer("a", 100), peer("b", 1), peer("c", 1), peer("d", 1, "backup") })
        local tries = { n = 1, peer("a", 100) }
        local seen = {}
        for n = 2, 4 do
            local chosen = live:another(tries, 1)
            assert.is_nil(seen[chosen.id])
            seen[chosen.id] = true
            tries.n, tries[n] = n, chosen
        end
        assert.same({ b = true, c = true, d = true }, seen)
        assert.equal("d", tries[4].id) -- the backup comes last
    end)

    it("knows a server by its address, with any id", function()
        local live = serving({ peer("a", 1, "up", "x:80"), peer("b", 1, "up", "x:80"), peer("c", 1, "up", "y:80") })
        assert.equal("c", live:another({ n = 1, peer("a", 1, "up", "x:80") }, 1).id)
    end)

    it("goes to a peer already tried only if it is a spare one and no other is left", function()
        local live, tries = serving({ peer("a", 1) }), { n = 1, peer("a", 1) }
        assert.is_nil(live:another(tries, 1))
        assert.equal("a", live:another(tries, 1, nil, true).id)
        local larger = serving({ peer("a", 1), peer("b", 1) })
        assert.equal("b", larger:another(tries, 1, nil, true).id)
    end)

    it("is allowed twice at most, and once less than there are peers", function()
        assert.equal(0, serving({ peer("a", 1) }).more_tries)
        assert.equal(1, serving({ peer("a", 1), peer("b", 1) }).more_tries)
        assert.equal(1, serving({ peer("a", 1), peer("b", 1, "backup"), peer("c", 1, "down") }).more_tries)
        assert.equal(2, serving({ peer("a", 1), peer("b", 1), peer("c", 1), peer("d", 1) }).more_tries)
    end)

    it("goes to no server that is busy while another is idle", function()
        math.randomseed(20261124)
        local live = new(nil, math.random)
        live:take(table_of({ peer("a", 1), peer("b", 1), peer("c", 1) }, "vnswrr2"), "fresh", 0)
        for _ = 1, 50 do
            live.context.stats:raise(peer("b").cell)
        end
        for _ = 1, 100 do
            assert.equal("c", live:another({ n = 1, peer("a", 1) }, 1).id)
        end
    end)

    it("goes to no server that fails while another does not", function()
        local live = serving({ peer("a", 1), peer("b", 9), peer("c", 1) })
        local stats = live.context.stats
        for _ = 1, 9 do
            stats:observe(peer("b").cell, nil, false, 0)
        end
        stats:raise(peer("c").cell)
        assert.equal("c", live:another({ n = 1, peer("a", 1) }, 1).id)
        assert.equal("b", live:another({ n = 2, peer("a", 1), peer("c", 1) }, 1).id)
    end)

    it("is drawn by weight among those of the rest that are as little busy", function()
        math.randomseed(20261124)
        local live, drawn = new(nil, math.random), { b = 0, c = 0 }
        live:take(table_of({ peer("a", 5), peer("b", 3), peer("c", 2) }), "fresh", 0)
        local cycle = ids(live, 10)
        for _ = 1, 5000 do
            local chosen = live:another({ n = 1, peer("a", 5) }, 1).id
            drawn[chosen] = drawn[chosen] + 1
        end
        assert.near(3000, drawn.b, 150) -- over four deviations
        assert.equal(cycle, ids(live, 10)) -- no peer has lost a turn by it
    end)

    it("goes to the next on the ring, if the picker hashes", function()
        local live = serving({ peer("a", 1), peer("b", 1), peer("c", 1), peer("d", 1) })
        local a, b, c, d = unpack(live.table.peers)
        local ring = { [0] = b, b, d, a, d, c }
        live.picker = {
            pick = function(_, key) return ring[key], key end,
            following = function(_, place)
                place = (place + 1) % 6
                return ring[place], place
            end,
        }
        live.hash_variable = "remote_addr"
        assert.equal("d", live:another({ n = 1, b }, 1, 0).id)
        assert.equal("a", live:another({ n = 2, b, d }, 1, 0).id)
        assert.equal("c", live:another({ n = 2, d, a }, 1, 2).id)
    end)
end)


for _, picker in ipairs(fixtures.own()) do
    describe("with max_conns, picker " .. picker, function()
        local A, B, SPARE = peer("a", 900), peer("b", 1), peer("s", 1, "backup")

        local function limited(peers)
            math.randomseed(20261122)
            local live = new({ retries = 2, max_conns = 2, full_status = 503 }, math.random)
            live:take(table_of(peers, picker), "fresh", 0)
            return live
        end

        --- Send requests that do not end; return how many are at each peer.
        local function fill(live, n)
            local held = {}
            for _ = 1, n do
                local chosen = live:first()
                if chosen then
                    live.context.stats:raise(chosen.cell)
                    held[chosen.id] = (held[chosen.id] or 0) + 1
                end
            end
            return held
        end

        it("fills every peer, then the backups, and no peer beyond it", function()
            local live = limited({ A, B, SPARE })
            assert.same({ a = 2, b = 2 }, fill(live, 4))
            assert.same({ s = 2 }, fill(live, 5))
            assert.is_nil(live:first())
        end)

        it("takes a peer again as soon as it has let go of one", function()
            local live = limited({ A, B })
            fill(live, 4)
            live.context.stats:lower(A.cell)
            assert.equal("a", live:first().id)
            live.context.stats:raise(A.cell)
            live.context.stats:lower(B.cell)
            assert.equal("b", live:first().id)
        end)

        it("counts the known requests of others if the table has a limit over all", function()
            local live = new({ retries = 2 }, math.random)
            local limit_of_all = table_of({ A, B }, picker)
            limit_of_all.max_conns, live.settings.full_status = 3, 503
            live:take(limit_of_all, "fresh", 0)
            live.context.others = { live = true, is_live = function() return true end }
            for _, cell in ipairs({ A.cell, B.cell }) do
                live.context.stats:set_others(cell, cell == A.cell and 2 or 0)
            end
            local stats = live.context.stats
            assert.is_true(live:has_room(A))
            stats:raise(A.cell)
            assert.same({ false, true }, { live:has_room(A), live:has_room(B) })
            for _ = 1, 3 do
                stats:raise(live:first().cell)
            end
            assert.is_true(live:full())
            assert.same({ "all 2 servers have max_conns = 3 requests in flight here, or 3 of all load balancers", 503 },
                        { live:why_none({ n = 0 }, 1) })
            live.context.others.live = false -- no figures for a second
            assert.same({ true, false }, { live:has_room(A), live:has_room(B) })
            live.settings.max_conns = 1 -- and nginx.conf's own limit is there as well
            assert.is_false(live:has_room(A))
        end)

        it("gives each peer its own limit if it has one, in place of the others", function()
            local large, small = peer("a", 900), peer("b", 1)
            large.max_conns = 5
            local live = limited({ large, small })
            live.context.others = { live = true, is_live = function() return true end }
            live.context.stats:set_others(large.cell, 1)
            live.context.stats:set_others(small.cell, 1) -- nginx.conf's limit counts this nginx alone
            assert.same({ a = 4, b = 2 }, fill(live, 9))
            assert.is_true(live:full())
            assert.same({ "all 2 servers have as many requests in flight as their max_conns", 503 },
                        { live:why_none({ n = 0 }, 1) })
            small.max_conns = 1
            local all_own = new({ retries = 2, max_conns = nil, full_status = 503 }, math.random)
            all_own:take(table_of({ large, small }, picker), "fresh", 0)
            assert.is_true(all_own.limited_of_all)
            assert.same({ a = 5, b = 1 }, fill(all_own, 9))
            all_own:take(table_of({ A, B }, picker), "fresh", 0)
            assert.same({ false, false, false }, { all_own.limited, all_own.limited_of_all, all_own:full() })
        end)

        it("retries at a peer that has room, and at none that was tried", function()
            local live = limited({ A, B, SPARE })
            fill(live, 4)
            assert.equal("s", live:another({ n = 1, A }, 1).id)
            fill(live, 2)
            live.context.stats:lower(A.cell)
            assert.is_nil(live:another({ n = 1, A }, 1))
            local why, status = live:why_none({ n = 1, A }, 1)
            assert.equal("all 2 servers that were not tried have max_conns = 2 requests in flight", why)
            assert.equal(503, status)
        end)

        it("says that all are full, and nothing of the kind when they are not", function()
            local live = limited({ A, B, peer("d", 1, "down") })
            local none = { n = 0 }
            assert.is_false(live:full())
            fill(live, 4)
            assert.is_true(live:full())
            assert.same({ "all 2 servers have max_conns = 2 requests in flight", 503 }, { live:why_none(none, 1) })
            assert.is_false(limited({ peer("d", 1, "down") }):full())
        end)

        it("does not judge peers that have no cell", function()
            local strangers = { peer("a", 1), peer("b", 1) }
            strangers[1].cell, strangers[2].cell = 0, 0
            assert.equal(9, #ids(limited(strangers), 5))
        end)
    end)
end


describe("the ladder", function()
    local LIMITS = { fresh_s = 3, hold_s = 60, drift_s = 300 }

    local function rung(age_s, bootstrap)
        return { ladder.rung(age_s, bootstrap or false, LIMITS) }
    end

    it("goes from fresh over hold to drift", function()
        assert.same({ "fresh", 0 }, rung(0))
        assert.same({ "fresh", 0 }, rung(3))
        assert.same({ "hold", 0 }, rung(4))
        assert.same({ "hold", 0 }, rung(63))
        assert.same({ "drift", 0 }, rung(64))
        assert.same({ "drift", 0.5 }, rung(213))
        assert.same({ "drift", 1 }, rung(363))
        assert.same({ "drift", 1 }, rung(1e9))
    end)

    it("rests on the bootstrap list before the first table", function()
        assert.same({ "bootstrap", 0 }, rung(nil, true))
        assert.same({ "none", 0 }, rung(nil, false))
    end)

    it("drifts between the shares, also when the two totals differ", function()
        local peers = { peer("a", 3), peer("b", 1) }
        peers[1].baseline, peers[2].baseline = 500, 500
        local function weights(drift)
            local moved = ladder.drifted(peers, drift, no_pause)
            return { moved[1].weight, moved[2].weight }
        end
        assert.same({ 3, 1 }, weights(0))
        assert.same({ 6250, 3750 }, weights(0.5))
        assert.same({ 5000, 5000 }, weights(1))
        assert.equal(3, peers[1].weight) -- the table itself is not touched
    end)

    it("serves the bootstrap list as a table", function()
        local live = new()
        live:take(weight_table.bootstrap("web", { peer("a", 1), peer("b", 1) }), "bootstrap", 0)
        assert.equal("a b a b", ids(live, 4))
    end)
end)
