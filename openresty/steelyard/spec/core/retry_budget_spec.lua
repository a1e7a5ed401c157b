local retry_budget = require "steelyard.core.retry_budget"

local TAU_S = 10


--- A budget with a clock of its own: budget, and a table whose `s` is the time.
local function new(share, min_per_s, workers)
    local clock = { s = 0 }
    local settings = { share = share, min_per_s = min_per_s }
    return retry_budget.new(settings, workers or 1, function() return clock.s end), clock
end


--- Send requests at a rate, for a time; return how many of them could be retried, if all ask.
local function run(budget, clock, seconds, rate, asks)
    local taken = 0
    for _ = 1, seconds * rate do
        clock.s = clock.s + 1 / rate
        budget:count()
        if asks and budget:take() then
            taken = taken + 1
        end
    end
    return taken
end


describe("a retry budget", function()
    it("gives an outage its share of the requests, after its savings", function()
        local budget, clock = new(0.2, 0)
        run(budget, clock, 60, 100, false)
        local saved = run(budget, clock, 30, 100, true)
        assert.is_true(saved > 0.2 * 100 * 30 and saved < 0.2 * 100 * (30 + TAU_S), saved)
        local later = run(budget, clock, 60, 100, true)
        assert.is_true(math.abs(later - 0.2 * 100 * 60) < 30, later)
    end)

    it("has enough for a server in three that fails for a second", function()
        local budget, clock = new(0.2, 10)
        run(budget, clock, 60, 999, false)
        local refused = 0
        for i = 1, 999 do
            clock.s = clock.s + 1 / 999
            budget:count()
            if i % 3 == 0 and not budget:take() then
                refused = refused + 1
            end
        end
        assert.equal(0, refused)
    end)

    it("lets its floor through if there is hardly a request, and no more", function()
        local budget, clock = new(0.2, 1)
        local taken = 0
        for _ = 1, 100 do
            taken = taken + (budget:take() and 1 or 0)
        end
        assert.equal(10, taken)
        clock.s = 3600
        assert.is_true(budget:take())
    end)

    it("has a floor of none if that is asked for", function()
        local budget = new(0.2, 0)
        assert.is_false(budget:take())
        local nothing, clock = new(0, 0)
        assert.equal(0, run(nothing, clock, 60, 100, true))
    end)

    it("divides its floor among the workers, and leaves each three", function()
        for _, case in ipairs({ { 1, 100 }, { 4, 25 }, { 64, 3 } }) do
            local budget, taken = new(0, 10, case[1]), 0
            while budget:take() do
                taken = taken + 1
            end
            assert.equal(case[2], taken)
        end
    end)

    it("is spent, until it is not", function()
        local budget, clock = new(0, 1)
        assert.is_false(budget:is_spent())
        repeat until not budget:take()
        assert.is_true(budget:is_spent())
        clock.s = 0.1
        assert.is_true(budget:is_spent())
        clock.s = 2
        assert.is_false(budget:is_spent())
        assert.is_true(budget:take())
    end)

    it("stands still while a clock is set back", function()
        local budget, clock = new(0.2, 0)
        run(budget, clock, 60, 100, false)
        clock.s = -1000
        assert.is_true(budget:take())
        clock.s = 1e9 -- and a jump ahead forgets, no more
        assert.is_false(budget:take())
    end)

    it("never gives more than its share of all requests and its floor, at any times of requests", function()
        math.randomseed(20261122)
        for _ = 1, 300 do
            local share, min_per_s = math.random() * 0.5, math.random(0, 3)
            local budget, clock = new(share, min_per_s, math.random(1, 4))
            local requests, taken = 0, 0
            for _ = 1, math.random(1, 40) do
                local rate, asking = 10 ^ (math.random() * 3 - 1), math.random()
                for _ = 1, math.random(1, 200) do
                    clock.s = clock.s - math.log(1 - math.random()) / rate
                    budget:count()
                    requests = requests + 1
                    while math.random() < asking * 0.7 and budget:take() do
                        taken = taken + 1
                    end
                end
                clock.s = clock.s + (math.random() < 0.3 and math.random(1, 60) or 0)
                local bound = share * requests + budget.floor * (1 + clock.s / TAU_S)
                assert.is_true(taken <= bound, taken .. " retries, bound " .. bound)
            end
        end
    end)
end)
