-- docs/contract/check.json: bounds and defaults of a health check, which the Python tests load too.

local check_settings = require "steelyard.core.check_settings"
local json = require "steelyard.core.json"
local weight_table = require "steelyard.core.weight_table"

local function contract()
    local file = assert(io.open("docs/contract/check.json") or io.open("../docs/contract/check.json"))
    local text = file:read("*a")
    file:close()
    return assert(json.decode(text))
end

local examples = contract()

local function decode(check)
    local text = json.encode({
        v = 1, upstream = "web", term = 1, generation = 1, issued_at_ms = 1, law = "static", picker = "vnswrr2",
        reporters = { "edge-1" },
        check = check,
    })
    -- An empty list would come out as {}.
    text = string.gsub(text, '"statuses":{}', '"statuses":[]')
    return weight_table.decode((string.gsub(text, "}$", ',"reporters":[],"peers":[]}')))
end


describe("a health check in a weight table", function()
    for _, example in ipairs(examples.accepted) do
        it("is accepted: " .. example.about, function()
            local taken, refused = decode(example.check)
            assert.is_nil(refused)
            for _, key in ipairs({
                "path", "interval_s", "timeout_s", "rise", "fall", "host", "grpc_service", "tls",
            }) do
                local value = example.check[key]
                if value == json.null then
                    value = nil
                end
                assert.equal(value, taken.check[key])
            end
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local taken, refused = decode(example.check)
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end
end)


describe("a health check in nginx.conf", function()
    local function options(check)
        local given = {}
        for key, value in pairs(check) do
            if value ~= json.null then
                given[key] = value
            end
        end
        return given
    end

    for _, example in ipairs(examples.accepted) do
        it("is accepted: " .. example.about, function()
            assert.is_table(check_settings.of_options("check", options(example.check)))
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused: " .. example.about, function()
            assert.is_false((pcall(check_settings.of_options, "check", options(example.check))))
        end)
    end

    it("has the defaults of the contract", function()
        local check = check_settings.of_options("check", { path = "/" })
        for _, field in ipairs(examples.fields) do
            if field.kind == "number" or field.kind == "whole number" or field.kind == "flag" then
                assert.equal(field.default, check[field.name])
            end
        end
    end)
end)


describe("the fields of a health check", function()
    it("are those of the contract, with their kinds, bounds and defaults", function()
        local function plain(value)
            if value ~= json.null then
                return value
            end
        end
        local function rows_of(fields)
            local rows = {}
            for _, field in ipairs(fields) do
                rows[field.name] = { kind = field.kind, lowest = plain(field.lowest), highest = plain(field.highest),
                                     default = plain(field.default) }
            end
            return rows
        end
        assert.same(rows_of(examples.fields), rows_of(check_settings.FIELDS))
    end)
end)
