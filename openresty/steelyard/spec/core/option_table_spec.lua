--- Every option has a check, a reader and a row in the reference page; and no reader uses an option that does not
-- exist.

local options = require "steelyard.core.options"
local upstream_options = require "steelyard.core.upstream_options"

local LIB = "openresty/steelyard/lib/steelyard/"
local PAGE = "docs/reference/nginx-options.md"

-- Set by phase/stream_session for its own upstreams.
local NO_OPTIONS = { no_half_open = true }


local function text_of(path)
    local file = assert(io.open(path))
    local text = file:read("*a")
    file:close()
    return text
end


--- The text of a module without its comments.
local function code_of(module)
    return (text_of(LIB .. module .. ".lua"):gsub("%-%-[^\n]*", ""))
end


--- All modules, as "phase/limit".
local function modules()
    local names, listing = {}, io.popen("find " .. LIB .. " -name '*.lua'")
    for path in listing:lines() do
        names[#names + 1] = path:sub(#LIB + 1, -5)
    end
    listing:close()
    assert(#names > 50)
    return names
end


local function setting_names(table_of_options)
    local names = {}
    for _, row in ipairs(table_of_options.OPTIONS) do
        names[row.name] = true
    end
    for _, name in ipairs(table_of_options.DERIVED) do
        names[name] = true
    end
    return names
end


--- Whether code reads a field `name` (such as "timeouts.connect_s") of a table named like one of `holders`.
local function reads(code, holders, name)
    if name:find(".", 1, true) then
        return code:find("%f[%w_]" .. name:gsub("%.", "%%.") .. "%f[^%w_]") ~= nil
    end
    for _, holder in ipairs(holders) do
        if code:find("%f[%w_]" .. holder .. "%." .. name .. "%f[^%w_]") then
            return true
        end
    end
    return false
end


--- Return the fields that code reads of a table, such as "live%.settings".
local function fields_read(code, pattern)
    local fields = {}
    for field in code:gmatch("%f[%w_]" .. pattern .. "%.([%w_]+)") do
        fields[field] = true
    end
    return fields
end


--- Return the options with a row in the reference page: in backticks, in the first cell of a table.
local function documented()
    local names = {}
    for cell in text_of(PAGE):gmatch("\n| (`[^|]+) |") do
        for name in cell:gmatch("`([%w_]+)`") do
            names[name] = true
        end
    end
    return names
end


for title, case in pairs({
    ["an option of init_worker"] = { of = options, holders = { "options" } },
    ["an option of an upstream"] = { of = upstream_options, holders = { "settings" } },
}) do
    describe(title, function()
        for _, row in ipairs(case.of.OPTIONS) do
            it("has a check, and words or a value for when it is left out: " .. row.name, function()
                assert.is_function(row.check)
                assert.is_true(row.required or row.default ~= nil or row.unset ~= nil)
            end)

            it("is read by the module that takes it: " .. row.name, function()
                local name = row.read_as or row.name
                assert.is_true(reads(code_of(row.taken_by), case.holders, name),
                               row.taken_by .. " does not read " .. name)
            end)

            it("is in the reference: " .. row.name, function()
                assert.is_true(documented()[row.name], row.name .. " has no row in " .. PAGE)
            end)
        end

        it("is there once", function()
            local seen = {}
            for _, row in ipairs(case.of.OPTIONS) do
                assert.is_nil(seen[row.name])
                seen[row.name] = true
            end
        end)
    end)
end


describe("a module", function()
    local OF_WORKER, OF_UPSTREAM = setting_names(options), setting_names(upstream_options)

    it("reads no option that does not exist", function()
        for _, module in ipairs(modules()) do
            local code = code_of(module)
            for _, pattern in ipairs({ "worker%.options", "_M%.options" }) do
                for field in pairs(fields_read(code, pattern)) do
                    assert.is_true(OF_WORKER[field], module .. " reads the option " .. field)
                end
            end
            for field in pairs(fields_read(code, "live%.settings")) do
                assert.is_true(OF_UPSTREAM[field] or NO_OPTIONS[field], module .. " reads the option " .. field)
            end
        end
        for field in pairs(fields_read(code_of("core/upstream"), "settings")) do
            assert.is_true(OF_UPSTREAM[field], "core/upstream reads the option " .. field)
        end
    end)
end)


describe("the reference of options", function()
    it("has no row for an option that does not exist", function()
        local known = {}
        for _, row in ipairs(options.OPTIONS) do
            known[row.name] = true
        end
        for _, row in ipairs(upstream_options.OPTIONS) do
            known[row.name] = true
        end
        for name in pairs(documented()) do
            assert.is_true(known[name], PAGE .. " has a row for " .. name)
        end
    end)
end)
