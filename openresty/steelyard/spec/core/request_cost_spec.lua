local request_cost = require "steelyard.core.request_cost"


describe("the weight of a request", function()
    it("is the square root of its part of the mean, in any unit", function()
        for _, unit in ipairs({ 1, 500, 1e-6 }) do
            local costs = request_cost.new()
            for _ = 1, 1000 do
                costs:weigh(unit)
            end
            assert.equal(1, (costs:weigh(unit)))
            assert.near(4, (costs:weigh(16 * unit)), 0.05)
            assert.near(0.5, (costs:weigh(unit / 4)), 0.01)
        end
    end)

    it("is a multiple of 1/1024, above 0 and at most 100", function()
        local costs = request_cost.new()
        costs:weigh(1)
        for cost = -8, 8 do
            local weight = costs:weigh(10 ^ cost)
            assert.equal(math.floor(weight * 1024), weight * 1024)
            assert.is_true(weight > 0 and weight <= 100)
        end
    end)

    it("is 1, and its cost the mean, without a usable cost", function()
        local costs = request_cost.new()
        assert.same({ 1, 0, true }, { costs:weigh(nil) })
        costs:weigh(8)
        for _, told in ipairs({ "", "many", 0, -1, 1 / 0, 0 / 0, 1e10, {}, true }) do
            assert.same({ 1, 8, true }, { costs:weigh(told) })
        end
        assert.equal(8, costs.mean)
    end)

    it("is learnt from text, as nginx has it", function()
        local _, cost, malformed = request_cost.new():weigh("12.5")
        assert.same({ 12.5, false }, { cost, malformed })
    end)

    it("follows no single cost: a client that names a huge one does not make the others weightless", function()
        local costs = request_cost.new()
        for _ = 1, 1000 do
            costs:weigh(1)
        end
        costs:weigh(1e9)
        assert.is_true(costs:weigh(1) > 0.25)
    end)
end)
