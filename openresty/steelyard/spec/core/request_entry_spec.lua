local open_requests = require "steelyard.core.open_requests"
local peer_stats = require "steelyard.core.peer_stats"
local problem = require "steelyard.core.problem"
local request_entry = require "steelyard.core.request_entry"

local A, B = { id = "a", address = "a:80", cell = 0 }, { id = "b", address = "b:80", cell = 1 }


describe("a request's entry", function()
    local book, entry

    before_each(function()
        local stats = peer_stats.new(peer_stats.local_memory(2), 1, 2, 0)
        stats:by_cost()
        book = open_requests.new(stats)
        entry = book:entry(1, 0)
    end)

    --- Send the request to peers of an upstream.
    local function pass(upstream, ...)
        request_entry.begin_pass(entry)
        entry.upstream = upstream
        for i = 1, select("#", ...) do
            book:picked(entry, (select(i, ...)))
        end
    end

    local function upstreams()
        local names = {}
        for i = 1, entry.tries.n do
            names[i] = request_entry.upstream_of(entry, i)
        end
        return names
    end

    it("keeps the upstream of each try over internal redirects", function()
        pass("web", A, B)
        pass("spare", A)
        pass("full")
        pass("spare", B)
        assert.same({ "web", "web", "spare", "spare" }, upstreams())
        assert.equal(4, entry.tries.from)
    end)

    it("keeps cost and retry budget of an earlier pass", function()
        entry.price.upstream, entry.price.weight, entry.price.cost = { costs = { mean = 5 } }, 2, 20
        pass("web", A)
        entry.retry.over_budget = true
        pass("web", A)
        entry.price.weight, entry.price.cost = nil, nil -- known at the end only
        pass("web", B)
        local earlier = entry.tries.earlier
        assert.same({ upstream = "web", cost = 20, over_budget = true }, earlier[1])
        assert.same({ upstream = "web", cost = 5, over_budget = false }, earlier[2])
        assert.is_nil(earlier[3])
        assert.is_false(entry.retry.over_budget)
    end)

    it("forgets the failure of an earlier pass", function()
        pass("web")
        entry.failure.why, entry.failure.status, entry.failure.is_full = "all are full", 503, true
        pass("spare", A)
        assert.same({}, entry.failure)
    end)

    it("has no earlier pass while there was no redirect, nor when it is used again", function()
        pass("web", A, B)
        assert.is_nil(entry.tries.earlier)
        pass("spare", A)
        book:close(1)
        assert.same({ n = 0, from = 1 }, book:entry(2, 0).tries)
    end)

    it("gives the problem document each server's own upstream", function()
        pass("web", A)
        pass("spare", B)
        entry.failure.why = "all 1 servers are full"
        local outcomes = { { status = 503 }, { status = 502 } }
        local detail, extra = problem.of_request(entry, outcomes, true)
        assert.equal("upstream web: a answered 503; upstream spare: b could not be connected to; "
                     .. "all 1 servers are full", detail)
        assert.same({ "web", nil }, { extra.tries[1].upstream, extra.tries[2].upstream })
        assert.equal("spare", extra.upstream)
    end)
end)
