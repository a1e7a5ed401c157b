local open_requests = require "steelyard.core.open_requests"
local peer_stats = require "steelyard.core.peer_stats"
local request_entry = require "steelyard.core.request_entry"

local A, B = { id = "a", address = "a:80", cell = 0 }, { id = "b", address = "b:80", cell = 1 }

-- Everything noted by phase/ about a request: fields of its entry, and of the groups in it.
local NOTED = { "upstream", "explained", "client", "event_ms", "context", "server" }
local NOTED_IN_GROUPS = {
    reservation = { "peer", "upstream", "changes", "waited" },
    price = { "upstream", "weight", "cost" },
    place = { "class", "turn" },
    retry = { "allowed", "is_spare", "over_budget" },
    failure = { "why", "status", "is_full" },
    tries = { "stuck_after", "earlier" },
}


local function note_everything(entry)
    for _, field in ipairs(NOTED) do
        entry[field] = true
    end
    for group, fields in pairs(NOTED_IN_GROUPS) do
        for _, field in ipairs(fields) do
            entry[group][field] = true
        end
    end
end


local function new_stats()
    return peer_stats.new(peer_stats.local_memory(2), 1, 2, 0)
end


local function taken(book)
    local seen = {}
    local in_flight = book:take_all(function(address, _, ...)
        seen[address] = { ... }
    end)
    return seen, in_flight
end


describe("the open requests", function()
    it("holds a request in flight from its pick to its end", function()
        local book = open_requests.new(new_stats())
        book:picked(book:entry(1, 0), A)
        assert.same({ ["a:80"] = 1 }, select(2, taken(book)))
        book:count(0, "a:80", "completed", 12)
        book:close(1)
        local seen, in_flight = taken(book)
        assert.same({ ["a:80"] = { 0, 1, 0, 12, 0, 0 } }, seen)
        assert.same({}, in_flight)
    end)

    it("tells whether a failure is among the counts to hand out", function()
        local book = open_requests.new(new_stats())
        book:count(0, "a:80", "completed", 12)
        assert.is_false(book.has_failures)
        book:count(0, "a:80", "failed")
        assert.is_true(book.has_failures)
        taken(book)
        assert.is_false(book.has_failures)
    end)

    it("lets go of the first server when the request goes to a second", function()
        local book = open_requests.new(new_stats())
        local entry = book:entry(1, 0)
        book:picked(entry, A)
        book:picked(entry, B)
        assert.same({ ["b:80"] = 1 }, select(2, taken(book)))
        assert.same({ "a", "b" }, { entry.tries[1].id, entry.tries[2].id })
    end)

    it("lets go of the server when no other is found", function()
        local book = open_requests.new(new_stats())
        local entry = book:entry(1, 0)
        book:picked(entry, A)
        book:none(entry, "every server was tried")
        book:close(1)
        assert.same({}, select(2, taken(book)))
    end)

    it("gives the same entry to all phases of a request", function()
        local book = open_requests.new(new_stats())
        assert.equal(book:entry(1, 5), book:entry(1, 5))
    end)

    it("knows its newest witness", function()
        local book, before, now = open_requests.new(new_stats()), {}, {}
        local entry = book:entry(1, 1)
        book:watch(entry, before)
        book:watch(entry, now)
        assert.equal(now, book.witnesses[entry])
        assert.are_not.equal(before, book.witnesses[entry])
        book:close(1)
        assert.are_not.equal(now, book.witnesses[entry])
    end)

    it("holds a request's weight at the server of its last try until its end, and counts its cost", function()
        local stats = new_stats()
        local by_cost, book = stats:by_cost(), open_requests.new(stats)
        local entry = book:entry(1, 0)
        entry.price.upstream, entry.price.weight, entry.price.cost = {}, 3, 90
        book:picked(entry, A)
        book:picked(book:entry(2, 0), A) -- for an upstream without costs
        assert.same({ 4, 2 }, { by_cost:in_flight(0), stats:in_flight(0) })
        book:picked(entry, B)
        assert.same({ 1, 3 }, { by_cost:in_flight(0), by_cost:in_flight(1) })
        book:tried(A, "failed", nil, 0, nil, 90)
        book:tried(B, "completed", 5, 0, nil, 90)
        book:close(1)
        assert.same({ 1, 0 }, { by_cost:in_flight(0), by_cost:in_flight(1) })
        local counted = taken(book)
        assert.same({ 0, 90 }, { counted["a:80"][6], counted["b:80"][6] })
        assert.is_nil(book:entry(3, 0).price.weight)
    end)

    it("closes and counts watched requests after their witness is gone", function()
        local book = open_requests.new(new_stats())
        local witness = {}
        for key = 1, 4 do
            local entry = book:entry(key, key)
            entry.upstream = "web"
            book:picked(entry, A)
        end
        book:watch(book:entry(1, 1), witness)
        book:watch(book:entry(2, 2), {})
        collectgarbage() collectgarbage()
        assert.same({ true, 1 }, { book:close_ended(4, nil, 9) })
        assert.same({ ["a:80"] = 3 }, select(2, taken(book)))
        assert.same({ web = 1 }, book:take_unlogged())
        assert.same({}, book:take_unlogged())
        assert.same({ false, 0 }, { book:close_ended(1, nil, 9) }) -- the first is young
        book:close(1)
        assert.same({ false, 0 }, { book:close_ended(4, nil, 9) })
        assert.is_table(witness)
    end)

    it("closes and counts requests after their end was noted", function()
        local book = open_requests.new(new_stats())
        for key = 1, 3 do
            local entry = book:entry(key, key)
            entry.upstream = "web"
            local word = book.watch_end(entry)
            word[0] = key == 2 and 0 or 1700000000
        end
        assert.same({ false, 2 }, { book:close_ended() })
        assert.same({ web = 2 }, book:take_unlogged())
        assert.is_truthy(book:find(2, 2))
    end)

    it("lets go of a server that has no more work for an open request", function()
        local book = open_requests.new(new_stats())
        for key = 1, 3 do
            book.watch_end(book:entry(key, key))
            book:picked(book:entry(key, key), A)
        end
        book:release(book:entry(3, 3))
        local asked = {}
        local function is_over(entry, key)
            asked[#asked + 1] = key
            return entry.started == 1
        end
        assert.same({ false, 1 }, { book:close_ended(nil, is_over) })
        table.sort(asked)
        assert.same({ 1, 2 }, asked)
        assert.same({ ["a:80"] = 1 }, select(2, taken(book)))
        assert.is_truthy(book:find(1, 1))
        assert.same({}, book:take_unlogged())
    end)

    it("hands out the probes of half-open peers that ended with an unknown outcome", function()
        local book = open_requests.new(new_stats())
        for key = 1, 4 do
            local entry = book:entry(key, key)
            entry.upstream, entry.probe = "web", key < 4 and A or nil
            book:picked(entry, A)
            book.watch_end(entry)[0] = key == 1 and 0 or 1700000000
        end
        book:picked(book:find(2, 2), B) -- its probe has failed
        assert.same({ false, 3 }, { book:close_ended() })
        assert.same({ { upstream = "web", peer = A } }, book:take_unknown_probes())
        assert.same({}, book:take_unknown_probes())
        book:close(1)
        for key = 5, 8 do
            assert.is_nil(book:entry(key, 0).probe)
        end
    end)

    it("hands out a probe for the upstream that it was for, wherever an internal redirect led to later", function()
        local book = open_requests.new(new_stats())
        for key = 1, 3 do
            local entry = book:entry(key, key)
            entry.upstream, entry.probe = "web", A
            book:picked(entry, A)
            if key == 2 then
                book:picked(entry, B) -- its probe has failed
            end
            request_entry.begin_pass(entry)
            entry.upstream = "spare"
            if key < 3 then
                book:picked(entry, B)
            end
            book.watch_end(entry)[0] = 1700000000
        end
        book:close_ended()
        local probe = { upstream = "web", peer = A }
        assert.same({ probe, probe }, book:take_unknown_probes())
    end)

    it("counts a request when another one gets its key", function()
        local book = open_requests.new(new_stats())
        book:entry(1, 5).upstream = "web"
        assert.is_nil(book:find(1, 6))
        book:entry(2, 5).upstream = "api"
        book:entry(2, 6)
        assert.same({ web = 1, api = 1 }, book:take_unlogged())
    end)

    it("releases the rest of a request when another one gets its key", function()
        local book = open_requests.new(new_stats())
        book:picked(book:entry(1, 5), A)
        book:picked(book:entry(1, 6), B)
        assert.same({ ["b:80"] = 1 }, select(2, taken(book)))
        assert.equal(1, book:entry(1, 6).tries.n)
    end)

    it("uses a closed request's entry again, empty", function()
        local book = open_requests.new(new_stats())
        local entry = book:entry(1, 0)
        entry.upstream = "web"
        book:picked(entry, A)
        book:none(entry, "why")
        book:close(1)
        local again = book:entry(2, 0)
        assert.equal(entry, again)
        again.ended = nil
        assert.same({
            started = 0, tries = { n = 0, from = 1 },
            reservation = {}, price = {}, place = {}, retry = {}, failure = {},
        }, again)
    end)

    it("forgets everything noted, except fields that each first try sets again", function()
        local book = open_requests.new(new_stats())
        local entry = book:entry(1, 0)
        note_everything(entry)
        book:close(1)
        assert.equal(entry, book:entry(2, 0))
        entry.ended = nil
        assert.same({
            started = 0, tries = { n = 0, from = 1 },
            retry = { allowed = true, is_spare = true, over_budget = true },
            reservation = { changes = true }, place = { class = true, turn = true },
            price = {}, failure = {},
        }, entry)
    end)

    it("begins and ends a request in existing tables, with everything that phases note", function()
        jit.off()
        local book, growth = open_requests.new(new_stats()), {}
        local witness, entry = {}, nil
        local function step(name, ...)
            local before = collectgarbage("count")
            entry = book[name](book, ...) or entry
            growth[#growth + 1] = collectgarbage("count") - before
        end
        collectgarbage("stop")
        for started = 1, 4 do
            step("entry", 1, started)
            step("watch", entry, witness)
            step("picked", entry, A)
            step("none", entry, "of no use")
            step("picked", entry, B)
            local before = collectgarbage("count")
            note_everything(entry)
            entry.tries[3] = A
            entry.tries[3] = nil
            growth[#growth + 1] = collectgarbage("count") - before
            step("tried", A, "completed", 3, started)
            step("close", 1)
        end
        collectgarbage("restart")
        jit.on()
        -- The least of rounds 2 to 4: once in ten runs LuaJIT's table of strings grows meanwhile.
        local least = {}
        for step_of_round = 1, 8 do
            least[step_of_round] = math.min(growth[8 + step_of_round], growth[16 + step_of_round],
                                            growth[24 + step_of_round])
        end
        assert.same({ 0, 0, 0, 0, 0, 0, 0, 0 }, least)
    end)

    it("notes the requests in flight that each try found, if the peer stats keep levels", function()
        local stats = new_stats()
        local book = open_requests.new(stats)
        stats:keep_levels()
        book:picked(book:entry(1, 0), A)
        local entry = book:entry(2, 0)
        book:picked(entry, A)
        book:picked(entry, B)
        assert.same({ 1, 0 }, entry.tries.in_flight)
        for _ = 1, 2 do
            book:tried(A, "completed", 40, 1e9, entry.tries.in_flight[1])
            book:tried(B, "failed", 40, 1e9, entry.tries.in_flight[2])
            book:tried(B, "completed", nil, 1e9, entry.tries.in_flight[2])
        end
        assert.same({ 40, 0 }, { stats:latency_at(0, 1, 1e9), stats:latency_at(1, 0, 1e9) })
        book:close(2)
        assert.same({}, book:entry(3, 0).tries.in_flight)
    end)

    it("counts an aborted try as neither completed nor failed", function()
        local book = open_requests.new(new_stats())
        book:count(0, "a:80", "aborted", 0)
        assert.same({}, (taken(book)))
    end)

    it("counts a request without a latency as completed, and apart", function()
        local book = open_requests.new(new_stats())
        book:tried(A, "completed", nil, 1e9)
        book:tried(A, "completed", 4, 1e9)
        assert.same({ ["a:80"] = { 0, 2, 0, 4, 1, 0 } }, (taken(book)))
    end)

    it("counts latencies in the server's histogram, and of an upgrade none", function()
        local book = open_requests.new(new_stats())
        for _ = 1, 3 do
            book:count(1, "b:80", "completed", nil)
            book:count(1, "b:80", "failed", 1000)
            book:count(1, "b:80", "completed", 0)
        end
        assert.equal(0.5, book.histograms:take_median(1))
        assert.is_nil(book.histograms:take_median(0))
    end)

    it("hands each count out once", function()
        local book = open_requests.new(new_stats())
        book:count(0, "a:80", "failed", 0)
        assert.same({ ["a:80"] = { 0, 0, 1, 0, 0, 0 } }, (taken(book)))
        assert.same({}, (taken(book)))
    end)

    it("forgets an address that is no longer used, but not one in flight", function()
        local book = open_requests.new(new_stats())
        book:count(0, "a:80", "failed", 0)
        book:picked(book:entry(1, 0), B)
        for _ = 1, 100 do
            taken(book)
        end
        assert.same({ [1] = "b:80" }, book.addresses)
        assert.same({ ["b:80"] = 1 }, select(2, taken(book)))
    end)

    it("accepts closing a request that was never opened", function()
        open_requests.new(new_stats()):close(99)
    end)

    it("does not count a request for the next owner of its server's cell", function()
        local owner = "a:80"
        local stats = new_stats()
        local book = open_requests.new(stats, { cells = { owner = function() return owner end } })
        book:picked(book:entry(1, 0), A)
        taken(book)
        owner = "c:80"
        for _ = 1, 41 do
            taken(book) -- the request is under way, so the cell stays listed
        end
        book:tried(A, "completed", 5, 0)
        book:close(1)
        assert.same({ ["a:80"] = { 0, 1, 0, 5, 0, 0 } }, (taken(book)))
        for _ = 1, 41 do
            taken(book)
        end
        book:picked(book:entry(2, 0), A)
        book:tried(A, "failed", nil, 0)
        assert.same({ 1, 0 }, { stats:in_flight(0), stats:failing(0, 0) })
        book:close(2)
        assert.equal(0, stats:in_flight(0))
        assert.same({}, (taken(book)))
    end)
end)
