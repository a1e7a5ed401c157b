-- docs/contract/*.json: the examples of the Python tests, too.

local base64 = require "openresty.steelyard.spec.support.base64"
local json = require "steelyard.core.json"
local ladder = require "steelyard.core.ladder"
local orca = require "steelyard.core.orca"
local no_pause = require("resty.vnswrr").no_pause
local table_chunks = require "steelyard.core.table_chunks"
local table_head = require "steelyard.core.table_head"
local traffic_report = require "steelyard.core.traffic_report"
local upstream_list = require "steelyard.core.upstream_list"
local weight_table = require "steelyard.core.weight_table"
local wire = require "steelyard.core.wire"

local function contract(name)
    local file = assert(io.open("docs/contract/" .. name) or io.open("../docs/contract/" .. name))
    local text = file:read("*a")
    file:close()
    return assert(json.decode(text))
end


describe("a weight table in docs/contract", function()
    local examples = contract("weights.json")

    for _, example in ipairs(examples.accepted) do
        it("is accepted: " .. example.about, function()
            local value = example.value
            -- An empty list would come out as {}.
            local text = json.encode(value):gsub('"peers":{}', '"peers":[]')
            local taken, refused = weight_table.decode(text)
            assert.is_nil(refused)
            for _, key in ipairs({ "upstream", "term", "generation", "issued_at_ms", "law", "picker" }) do
                assert.equal(value[key], taken[key])
            end
            assert.equal(value.hash_key, taken.hash_key)
            assert.equal(value.max_conns, taken.max_conns)
            for _, name in ipairs(value.reporters) do
                assert.is_true(taken.reporters[name])
            end
            assert.equal(value.zones ~= nil, taken.zones ~= nil)
            for i, zone in ipairs(value.zones or {}) do
                assert.equal(value.zone_factors[i][i], taken.zones.factors[zone][zone])
                assert.equal(value.zone_factors[i][#value.zones + 1], taken.zones.factors[zone][""])
                assert.equal(value.zone_factors[#value.zones + 1][i], taken.zones.factors[""][zone])
            end
            assert.equal(value.check ~= nil, taken.check ~= nil)
            for key, setting in pairs(value.check or {}) do
                if key == "statuses" and setting ~= json.null then
                    assert.equal(table.concat(setting, ", "), taken.check.statuses_words)
                elseif key == "statuses" then
                    assert.equal(taken.check.grpc_service and "SERVING" or "200-399", taken.check.statuses_words)
                elseif key ~= "method" then -- the key of a later minor format
                    if setting == json.null then
                        setting = nil
                    end
                    assert.equal(setting, taken.check[key])
                end
            end
            assert.equal(#value.peers, #taken.peers)
            for i, peer in ipairs(value.peers) do
                for _, key in ipairs({ "id", "address", "weight", "baseline", "state", "zone", "max_conns" }) do
                    assert.equal(peer[key], taken.peers[i][key])
                end
            end
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local taken, refused = weight_table.decode(example.text)
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end
end)


describe("a table's head in docs/contract", function()
    local examples = contract("head.json")

    for _, example in ipairs(examples.accepted) do
        it("makes of the table before the table after: " .. example.about, function()
            local head = assert(table_head.decode(example.head, no_pause))
            local before = assert(weight_table.decode(example.before))
            assert.equal(before.digest, head.digest)
            assert.equal(example.after, table_head.put_into(example.before, head, no_pause))
        end)
    end

    for _, example in ipairs(examples.distinct) do
        it("belongs to one table alone: " .. example.about, function()
            local one, other = assert(weight_table.decode(example.one)), assert(weight_table.decode(example.other))
            assert.is_string(one.digest)
            assert.is_string(other.digest)
            assert.are_not.equal(one.digest, other.digest)
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local taken, refused = table_head.decode(example.text, no_pause)
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end
end)


describe("a table in chunks in docs/contract", function()
    local examples = contract("chunks.json")

    for _, example in ipairs(examples.accepted) do
        it("is the table byte for byte: " .. example.about, function()
            assert.is_true(table_chunks.is_manifest(example.manifest))
            assert.is_false(table_chunks.is_manifest(example.table))
            local manifest = assert(table_chunks.decode(example.manifest, no_pause))
            assert.same(example.names, manifest.chunks)
            assert.equal(example.table, table_chunks.join(manifest, example.chunks, no_pause))
        end)

        it("has a manifest that is refused by readers unaware of chunks: " .. example.about, function()
            local _, refused = weight_table.decode(example.manifest)
            assert.equal("missing", refused.reason)
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local manifest, refused = table_chunks.decode(example.manifest, no_pause)
            local text, taken
            if manifest then
                text, refused = table_chunks.join(manifest, example.chunks, no_pause)
            end
            if text then
                taken, refused = weight_table.decode(text)
            end
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end
end)


describe("a list of upstreams in docs/contract", function()
    local examples = contract("upstreams.json")

    for _, example in ipairs(examples.accepted) do
        it("is accepted: " .. example.about, function()
            local value = example.value
            -- An empty list would come out as {}.
            local text = json.encode(value):gsub('"names":{}', '"names":[]')
            local taken, refused = upstream_list.decode(text)
            assert.is_nil(refused)
            for _, key in ipairs({ "term", "generation", "issued_at_ms", "names" }) do
                assert.same(value[key], taken[key])
            end
        end)
    end

    for _, example in ipairs(examples.refused) do
        it("is refused (" .. example.reason .. "): " .. example.about, function()
            local taken, refused = upstream_list.decode(example.text)
            assert.is_nil(taken)
            assert.equal(example.reason, refused.reason)
        end)
    end

    it("is refused with more names than any controller writes", function()
        local names = {}
        for i = 1, 10001 do
            names[i] = string.format("u%05d", i)
        end
        local listed = { v = 1, term = 1, generation = 1, issued_at_ms = 1, names = names }
        local _, refused = upstream_list.decode(json.encode(listed))
        assert.equal("range", refused.reason)
        names[10001] = nil
        assert.equal(10000, #upstream_list.decode(json.encode(listed)).names)
    end)
end)


local COLUMNS = { "completed", "failed", "in_flight", "latency_ms", "latency_p50_ms", "cost" }


--- An example as input of the encoder: the ids, and the figures of each.
local function given(value)
    local report = { figures = {} }
    for key, member in pairs(value) do
        report[key] = member
    end
    for i, id in ipairs(report.ids) do
        local figures = { load = (value.loads or {})[id] }
        for _, name in ipairs(COLUMNS) do
            figures[name] = (value[name] or {})[i]
        end
        report.figures[i] = figures
    end
    return report
end


describe("a traffic report in docs/contract", function()
    for _, example in ipairs(contract("traffic.json").accepted) do
        it("equals the encoder's output: " .. example.about, function()
            local value = example.value
            local written = assert(json.decode(assert(traffic_report.encode(given(value), no_pause))))
            value.tier = nil -- the unknown key
            assert.same(value, written)
        end)
    end

    it("has every server, however many pieces they are encoded in", function()
        local report, breaths = { ids = {}, figures = {} }, 0
        for i = 1, 250 do
            report.ids[i] = string.format("server-%03d", i)
            report.figures[i] = {
                completed = i, failed = 0, in_flight = 1, latency_ms = i % 3 == 0 and json.null or i / 10,
                latency_p50_ms = i % 2 == 0 and i / 20 or nil, load = i > 240 and { utilization = i / 1000 } or nil,
            }
        end
        local breathe = function() breaths = breaths + 1 end
        local columns = json.decode(traffic_report.encode(report, breathe))
        assert.is_true(breaths > 10)
        assert.same(report.ids, columns.ids)
        for i, id in ipairs(report.ids) do
            for _, name in ipairs({ "completed", "failed", "in_flight", "latency_ms" }) do
                assert.equal(report.figures[i][name], columns[name][i])
            end
            assert.equal(report.figures[i].latency_p50_ms or json.null, columns.latency_p50_ms[i])
            assert.same(report.figures[i].load, columns.loads[id])
        end
    end)

    for _, rung in ipairs(ladder.RUNGS) do
        it("reports the rung " .. rung, function()
            local text = traffic_report.encode({ rung = rung, ids = {}, figures = {} }, no_pause)
            assert.truthy(text:find('"rung":"' .. rung .. '"', 1, true))
        end)
    end

    it("keeps a term that is the time in milliseconds exactly", function()
        local text = traffic_report.encode({ order = { 1790000000001, 118 }, ids = {}, figures = {} }, no_pause)
        assert.truthy(text:find('"order":[1790000000001,118]', 1, true))
    end)

    it("with no peers has arrays and not objects", function()
        local report = {
            upstream = "web", lb = "edge-1", boot = "b", seq = 1, interval_s = 1, ids = {}, figures = {},
        }
        local columns = traffic_report.encode(report, no_pause)
        assert.truthy(columns:find('"ids":[],"completed":[],', 1, true))
        assert.falsy(columns:find("{}", 1, true))
    end)
end)


describe("a load balancer's run in docs/contract", function()
    it("has its line", function()
        local examples, lines = contract("runs.json"), {}
        for i, run in ipairs(examples.runs) do
            lines[i] = traffic_report.run_line(run)
        end
        assert.equal(examples.lines, table.concat(lines))
    end)
end)


describe("the keys of version 1", function()
    it("are those of the other side", function()
        assert.equal("steelyard:1:weights:web", wire.key("weights", "web"))
        assert.equal("steelyard:1:upstreams", wire.key("upstreams"))
        assert.equal("steelyard:1:runs", wire.key("runs"))
        assert.equal("steelyard:1:head:web", wire.key("head", "web"))
        assert.equal("steelyard:1:chunk:web:0a", wire.key("chunk", "web", "0a"))
        assert.equal("steelyard:1:traffic:web:edge-1", wire.key("traffic", "web", "edge-1"))
    end)
end)


describe("an ORCA load report in docs/contract", function()
    local examples = contract("orca.json")

    for _, example in ipairs(examples.reports) do
        it("says the same in binary, padded or not, as in text: " .. example.about, function()
            local load = orca.load(example.text, base64.decode)
            assert.is_table(load)
            assert.same({ load, false }, { orca.load("BIN " .. example.binary, base64.decode) })
            assert.same({ load, false }, { orca.load("BIN " .. example.binary:gsub("=", ""), base64.decode) })
        end)
    end

    for _, example in ipairs(examples.binary_only) do
        it("is read in binary: " .. example.about, function()
            assert.same({ example.load, false }, { orca.load("BIN " .. example.binary, base64.decode) })
        end)
    end
end)
