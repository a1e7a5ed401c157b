--- A little of `steelyard-loadtest fuzz` on the data plane's decoders: a fixed seed, the same inputs each time.

local inputs = require "openresty.steelyard.spec.support.fuzz_inputs"
local targets = require "openresty.steelyard.spec.support.fuzz_targets"

local INPUTS = 500


describe("a decoder", function()
    for _, target in ipairs(targets.all()) do
        it("keeps its promises for inputs that nobody meant: " .. target.about, function()
            local random = inputs.random(1)
            for i = 1, INPUTS do
                local text = inputs.an_input(random, target.seeds)
                local outcome, broken = targets.outcome(target, text)
                assert.is_string(outcome, broken and string.format("input %d, %q: %s", i, text:sub(1, 300), broken))
            end
        end)

        it("takes some of its examples: " .. target.about, function()
            local accepted = 0
            for _, text in ipairs(target.seeds) do
                accepted = accepted + (targets.outcome(target, text) == "accepted" and 1 or 0)
            end
            assert.is_true(accepted > 0)
        end)
    end
end)
