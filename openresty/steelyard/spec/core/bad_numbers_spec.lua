-- Each reader of numbers in input gets texts that LuaJIT's tonumber() or cjson takes, and that are no finite decimals.

local address = require "steelyard.core.address"
local base64 = require "openresty.steelyard.spec.support.base64"
local failure_report = require "steelyard.core.failure_report"
local http_message = require "steelyard.core.http_message"
local in_flight_messages = require "steelyard.core.in_flight_messages"
local inference = require "steelyard.core.inference"
local options = require "steelyard.core.options"
local orca = require "steelyard.core.orca"
local others_in_flight = require "steelyard.core.others_in_flight"
local request_cost = require "steelyard.core.request_cost"
local try_outcomes = require "steelyard.core.try_outcomes"
local weight_table = require "steelyard.core.weight_table"

local TEXTS = {
    "nan", "-nan", "NaN", "inf", "-inf", "Infinity", "1e999", "-1e999", ("9"):rep(400), "-" .. ("9"):rep(400),
    "0x10", "0b101", " 5", "5\t", "5\0", "1_000", "", "5, 5",
}

local DOUBLES = { 0 / 0, 1 / 0, -1 / 0 }

-- Binary load reports whose CPU and requests in flight are 7; NaN, inf, -inf.
local SEVEN, NOT_FINITE = "BIN CQAAAAAAABxAQhQKCWluX2ZsaWdodBEAAAAAAAAcQA==", {
    "BIN CQAAAAAAAPh/QhQKCWluX2ZsaWdodBEAAAAAAAD4fw==", "BIN CQAAAAAAAPB/QhQKCWluX2ZsaWdodBEAAAAAAADwfw==",
    "BIN CQAAAAAAAPD/QhQKCWluX2ZsaWdodBEAAAAAAADw/w==",
}


local function is_finite(value)
    return value - value == 0
end


--- Tell whether a value, or any in a table, is NaN or an infinity.
local function has_infinite(value)
    if type(value) == "number" then
        return not is_finite(value)
    elseif type(value) ~= "table" then
        return false
    end
    for _, each in pairs(value) do
        if has_infinite(each) then
            return true
        end
    end
    return false
end


-- name -> function(text): what the reader makes of it.
local READERS = {
    cost = function(text)
        local costs = request_cost.new()
        return { request_cost.number(text), costs:weigh(text), costs.mean, costs:weigh(1) }
    end,
    load_in_text = function(text)
        text = "TEXT cpu_utilization=" .. text .. ",named_metrics.in_flight=" .. text
        return { orca.in_flight(text, base64.decode) or 0, (orca.load(text, base64.decode)) }
    end,
    load_in_json = function(text)
        text = 'JSON {"cpu_utilization": ' .. text .. ', "named_metrics": {"in_flight": ' .. text .. "}}"
        return { orca.in_flight(text, base64.decode) or 0, (orca.load(text, base64.decode)) }
    end,
    tokens_of_request = function(text)
        local found = {}
        for _, body in ipairs({ '{"model":"m","max_tokens":%s}', '{"model":"m","max_completion_tokens":"%s"}' }) do
            local request = inference.request(string.format(body, text))
            found[#found + 1] = request and { request, inference.estimate({}, request, 400) } or 0
        end
        return found
    end,
    tokens_of_answer = function(text)
        local lately, costs = {}, {}
        for _, quote in ipairs({ "", '"' }) do
            local figure = quote .. text .. quote
            for _, usage in ipairs({
                '{"prompt_tokens":%s,"completion_tokens":1}', '{"prompt_tokens":1,"completion_tokens":%s}',
                '{"prompt_tokens":1,"completion_tokens":1,"prompt_tokens_details":{"cached_tokens":%s}}',
            }) do
                local answer = { events = 9, tail = '"usage":' .. string.format(usage, figure) }
                local cost, output = inference.used(answer, 4)
                costs[#costs + 1] = cost
                inference.learn(lately, "m", output)
            end
        end
        return { costs, lately }
    end,
    content_length = function(text)
        local length, refused = http_message.length({ status = 200, headers = { ["content-length"] = text } })
        assert.equal(length == nil, refused ~= nil)
        return length
    end,
    answer_s_status = function(text)
        return (http_message.status("HTTP/1.1 " .. text .. " OK\r\n\r\n"))
    end,
    grpc_status = function(text)
        assert.equal("failed", try_outcomes.grpc_verdict(text))
    end,
    port = function(text)
        return { address.split("127.0.0.1:" .. text) }
    end,
    network = function(text)
        local network = address.network("10.0.0.0/" .. text)
        return network and network.bits
    end,
    memcached_s_port = function(text)
        return { pcall(options.check, { memcached = { "a:" .. text }, lb = "e", upstreams = { web = {} } }) }
    end,
    controller_s_port = function(text)
        return { pcall(options.check, { memcached = { "a:1" }, controller = { "http://a:" .. text }, lb = "e",
                                        upstreams = { web = {} } }) }
    end,
    counter_in_memcached = function(text)
        local others = others_in_flight.new(nil, 1)
        local exchange = in_flight_messages.new(others, { set_others = function() end }, math.random)
        exchange:request()
        exchange:answer("VA 1\r\n" .. text .. "\r\nVA 1\r\n" .. text .. "\r\n")
        return { exchange.epoch, exchange.balancers }
    end,
    failures = function(text)
        local rows = {}
        failure_report.decode(
            '{"lb":"b","upstreams":{"web":{"order":[1,1],"rows":{"a:1":[' .. text .. ",1,1," .. text .. "]}}}}", "b",
            { web = { 1, 1 } }, function(_, _, row) rows[#rows + 1] = row end)
        return rows
    end,
    weights = function(text)
        return (weight_table.decode('{"v":1,"upstream":"web","term":1,"generation":1,"issued_at_ms":1,"law":"x",'
                                    .. '"picker":"vnswrr","peers":[{"id":"a","address":"127.0.0.1:1","weight":' .. text
                                    .. ',"baseline":1,"state":"up"}]}'))
    end,
}


describe("a number that is none", function()
    for name, read in pairs(READERS) do
        it("leaves nothing infinite in " .. name, function()
            for _, text in ipairs(TEXTS) do
                assert.is_false(has_infinite(read(text)), text)
            end
        end)
    end

    it("leaves nothing infinite in a binary load report", function()
        assert.equal(7, orca.in_flight(SEVEN, base64.decode))
        for _, report in ipairs(NOT_FINITE) do
            assert.is_nil(orca.in_flight(report, base64.decode))
            assert.same({ nil, true }, { orca.load(report, base64.decode) })
        end
    end)

    it("is no cost if a function returns it", function()
        for _, double in ipairs(DOUBLES) do
            assert.is_nil(request_cost.number(double))
        end
    end)

    it("is never a number in hex, in binary or between blanks", function()
        for _, text in ipairs({ "0x10", "0b101", " 5", "5\t", "1e999" }) do
            assert.is_nil(request_cost.number(text), text)
            assert.is_nil(READERS.content_length(text), text)
            assert.is_nil(READERS.network(text), text)
        end
    end)
end)
