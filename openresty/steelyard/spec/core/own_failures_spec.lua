local own_failures = require "steelyard.core.own_failures"
local peer_stats = require "steelyard.core.peer_stats"

local A, B = { address = "a:80", cell = 0 }, { address = "b:80", cell = 1 }


describe("an upstream's own rules for failures", function()
    local own, stats

    before_each(function()
        own = own_failures.new({ failure_statuses = { [429] = true }, grpc = true })
        stats = peer_stats.new(peer_stats.local_memory(2), 1, 2, 0)
    end)

    it("are none without an option", function()
        assert.is_nil(own_failures.new({}))
        assert.is_nil(own_failures.new({ failure_statuses = {}, grpc = false }))
    end)

    it("judge answers alone, and count per address until they are taken", function()
        assert.is_true(own:judge(A, "completed", 429, nil, 1))
        assert.is_true(own:judge(A, "completed", 200, "14", 1))
        assert.is_true(own:judge(B, "completed", 429, nil, 1))
        assert.is_falsy(own:judge(A, "completed", 200, "0", 1))
        assert.is_falsy(own:judge(A, "completed", 200, nil, 1))
        assert.is_falsy(own:judge(A, "failed", 502, nil, 1))
        assert.is_falsy(own:judge(A, "aborted", nil, nil, 1))
        local counts = own:take()
        assert.same({ ["a:80"] = 2, ["b:80"] = 1 }, counts.own_failed)
        assert.same({ { ["a:80"] = 2 }, { ["a:80"] = 3, ["b:80"] = 1 } }, { counts.completed, counts.failed })
        assert.same({ own_failed = {}, completed = {}, failed = {} }, own:take())
    end)

    it("tell whether a failure of theirs is still to be taken", function()
        own:judge(A, "completed", 200, nil, 1)
        own:judge(A, "failed", 502, nil, 1) -- counted at the address
        assert.is_false(own:has_failures())
        own:judge(A, "completed", 429, nil, 1)
        assert.is_true(own:has_failures())
        own:take()
        assert.is_false(own:has_failures())
    end)

    it("make a server failing for this upstream's pickers, which fades", function()
        local over = own:over(stats)
        for _ = 1, 4 do
            own:judge(A, "completed", 429, nil, 100)
            stats:observe(A.cell, nil, true, 100)
        end
        assert.is_true(over:failing(A.cell, 100) > 0.5)
        assert.equal(0, stats:failing(A.cell, 100))
        assert.equal(0, over:failing(B.cell, 100))
        assert.is_true(over:failing(A.cell, 110) < 0.25)
    end)

    it("leave a server failing that fails at its address", function()
        stats:observe(A.cell, nil, false, 100)
        assert.equal(stats:failing(A.cell, 100), own:over(stats):failing(A.cell, 100))
    end)

    it("leave the other figures to the address's stats", function()
        local over = own:over(stats:by_cost())
        over:keep_levels()
        assert.is_truthy(stats.by_level)
        stats:raise(A.cell)
        assert.equal(1, over:in_flight(A.cell))
        over:trust_others(true)
        stats:set_others(A.cell, 2)
        assert.same({ 3, 1 }, { over:in_flight(A.cell), stats:in_flight(A.cell) })
    end)

    it("move tries from the completed to the failed ones, never more than there are", function()
        assert.same({ 7, 5 }, { own_failures.of_upstream(10, 2, 3) })
        assert.same({ 0, 4 }, { own_failures.of_upstream(2, 2, 3) })
        assert.same({ 2, 2 }, { own_failures.of_upstream(2, 2, -1) })
    end)
end)
