local no_pause = require("resty.vnswrr").no_pause
local json = require "steelyard.core.json"
local traffic_report = require "steelyard.core.traffic_report"

describe("a peer's traffic figures", function()
    local function totals(completed, failed, latency_ms, untimed)
        return { completed = completed, failed = failed, latency_ms = latency_ms, untimed = untimed or 0 }
    end

    local function figures(total, before, seen)
        seen = seen or {}
        seen.in_flight = seen.in_flight or 0
        return traffic_report.figures(total, before, seen)
    end

    it("are the difference of two totals", function()
        assert.same({ completed = 10, failed = 1, in_flight = 2, latency_ms = 4.5 },
                    figures(totals(110, 3, 545), totals(100, 2, 500), { in_flight = 2 }))
    end)

    it("have no latency when nothing was completed", function()
        assert.equal(json.null, figures(totals(5, 9, 50), totals(5, 1, 50)).latency_ms)
    end)

    it("have the mean of those that took a time: an upgrade has none", function()
        assert.equal(5, figures(totals(110, 3, 545, 3), totals(100, 2, 500, 2), { in_flight = 2 }).latency_ms)
        assert.equal(json.null, figures(totals(2, 0, 50, 2), totals(0, 0, 50)).latency_ms)
    end)

    it("have the upstream's own failures as failed, and their time nowhere", function()
        local now, before = totals(110, 3, 545, 4), totals(100, 2, 500, 0)
        now.own_failed, before.own_failed = 9, 5
        assert.same({ completed = 6, failed = 5, in_flight = 0, latency_ms = 7.5 }, figures(now, before))
    end)

    it("have the median beside the mean, if it is known", function()
        assert.equal(3.5, figures(totals(1, 0, 9), totals(0, 0, 0), { median_ms = 3.5 }).latency_p50_ms)
        assert.is_nil(figures(totals(1, 0, 9), totals(0, 0, 0)).latency_p50_ms)
    end)

    it("leave out dispensable figures if the report would be too large to be read", function()
        local function kept_of(servers, loads)
            local report = { upstream = "web", ids = {}, figures = {} }
            for i = 1, servers do
                report.ids[i] = string.format("server-%05d", i)
                report.figures[i] = {
                    completed = 100, failed = 0, in_flight = 1, latency_ms = 4.123, latency_p50_ms = 3.6,
                    load = loads and { utilization = 0.5, named_metrics = { kv_cache = 0.25 } },
                }
            end
            local text = traffic_report.encode(report, no_pause)
            assert.is_true(#text < 1024 * 1024)
            local kept = {}
            for i, name in ipairs({ "named_metrics", "latency_p50_ms", "load" }) do
                kept[i] = text:find('"' .. name, 1, true) ~= nil
            end
            return kept
        end
        assert.same({ false, true, false }, kept_of(25000))
        assert.same({ false, false, false }, kept_of(33000))
        assert.same({ true, true, true }, kept_of(9000, true))
        assert.same({ false, true, true }, kept_of(12000, true))
        assert.same({ false, false, true }, kept_of(15500, true))
        assert.same({ false, false, false }, kept_of(28000, true))
    end)

    it("leave out idle servers if all of them are too many", function()
        local report = { upstream = "web", ids = {}, figures = {} }
        for i = 1, 50000 do
            report.ids[i] = string.format("server-%05d", i)
            report.figures[i] = { completed = 0, failed = 0, in_flight = 0, latency_ms = json.null }
        end
        report.figures[7].completed, report.figures[8].failed, report.figures[9].in_flight = 1, 1, 1
        report.written_ids = traffic_report.texts(report.ids, no_pause)
        local kept = json.decode(traffic_report.encode(report, no_pause))
        assert.same({ "server-00007", "server-00008", "server-00009" }, kept.ids)
        assert.same({ 0, 1, 0 }, kept.failed)
    end)

    it("are the same with ids that were written before", function()
        local report = { upstream = "web", ids = { "a", "b" }, figures = {} }
        for i = 1, 2 do
            report.figures[i] = { completed = i, failed = 0, in_flight = 0, latency_ms = json.null }
        end
        local text = traffic_report.encode(report, no_pause)
        report.written_ids = traffic_report.texts(report.ids, no_pause)
        assert.equal(text, traffic_report.encode(report, no_pause))
    end)

    it("have every digit of a number, and null for what is not known", function()
        local report = { upstream = "web", ids = {}, figures = {} }
        local numbers = { 0, 1, 1 / 3, 123456.789, 2 ^ 53 - 1, 1e14, 99999999999999, 0.001 }
        for i, number in ipairs(numbers) do
            report.ids[i] = "s" .. i
            report.figures[i] = { completed = number, failed = 0, in_flight = 0, latency_ms = json.null }
        end
        local read = json.decode(traffic_report.encode(report, no_pause))
        for i, number in ipairs(numbers) do
            assert.near(number, read.completed[i], 1e-13 * number)
            assert.equal(json.null, read.latency_ms[i])
        end
        report.figures[3].completed = 0 / 0
        assert.has_error(function() traffic_report.encode(report, no_pause) end)
    end)

    it("leave room in Memcached's largest item, of 1 MiB, for its own bytes and the signature", function()
        local function with_idle(n)
            local report = { upstream = "web", ids = {}, figures = {} }
            for i = 1, n do
                report.ids[i] = string.format("server-%057d", i)
                report.figures[i] = { completed = i == 1 and 1 or 0, failed = 0, in_flight = 0, latency_ms = json.null }
            end
            return #traffic_report.encode(report, no_pause)
        end
        local few, per_server = with_idle(1000), (with_idle(2000) - with_idle(1000)) / 1000
        for bytes = 1024 * 1024 - 900, 1024 * 1024, 400 do
            assert.is_true(with_idle(1000 + math.floor((bytes - few) / per_server)) <= 1024 * 1024 - 1024)
        end
    end)

    it("have the server's report of its load", function()
        local load = { utilization = 0.5 }
        assert.equal(load, figures(totals(1, 0, 9), totals(0, 0, 0), { load = load }).load)
    end)

    it("have the cost of its requests if they have one", function()
        local now, before = totals(2, 0, 9), totals(1, 0, 0)
        now.cost, before.cost = 12.5, 10
        assert.equal(2.5, figures(now, before).cost)
        before.cost = 100 -- the totals were lost
        assert.equal(12.5, figures(now, before).cost)
    end)

    it("begin again when the totals were lost", function()
        assert.same({ completed = 3, failed = 0, in_flight = 0, latency_ms = 2 },
                    figures(totals(3, 0, 6), totals(100, 2, 500)))
    end)
end)
