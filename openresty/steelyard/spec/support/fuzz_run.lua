--- luajit <this file> SEED SECONDS [TARGET]: try inputs of every target for so long.
-- luajit <this file> judge: read `TARGET LENGTH\n<bytes>` again and again, and answer each.
--
-- From the checkout's root; every answer is a line of JSON.

package.path = "openresty/steelyard/lib/?.lua;openresty/lua-resty-vnswrr/lib/?.lua;./?.lua;" .. package.path

local inputs = require "openresty.steelyard.spec.support.fuzz_inputs"
local json = require "steelyard.core.json"
local targets = require "openresty.steelyard.spec.support.fuzz_targets"

-- Inputs between two looks at the clock.
local ROUND = 50


local function hex(text)
    return (string.gsub(text, ".", function(byte)
        return string.format("%02x", string.byte(byte))
    end))
end


local function say(document)
    io.write(json.encode(document), "\n")
    io.flush()
end


local function tally(target, seed, seconds)
    local random, outcomes, violations, tried = inputs.random(seed), {}, {}, 0
    local deadline = os.clock() + seconds
    repeat
        for _ = 1, ROUND do
            local text = inputs.an_input(random, target.seeds)
            local outcome, broken = targets.outcome(target, text)
            tried = tried + 1
            if outcome then
                outcomes[outcome] = (outcomes[outcome] or 0) + 1
            elseif #violations < 5 then
                violations[#violations + 1] = { what = broken, input = hex(text) }
            end
        end
    until os.clock() > deadline
    return {
        target = target.name, about = target.about, tried = tried, outcomes = outcomes,
        violations = json.array(violations),
    }
end


local function judge()
    local known = {}
    for _, target in ipairs(targets.all()) do
        known[target.name] = target
    end
    for line in io.lines() do
        local name, length = string.match(line, "^(%S+) (%d+)$")
        local text = tonumber(length) > 0 and io.read(tonumber(length)) or ""
        local outcome, more = targets.outcome(known[name], text)
        say({ outcome = outcome, value = outcome and more, broken = not outcome and more or nil })
    end
end


if arg[1] == "judge" then
    judge()
else
    for _, target in ipairs(targets.all()) do
        if not arg[3] or arg[3] == target.name then
            say(tally(target, tonumber(arg[1]), tonumber(arg[2])))
        end
    end
end
