local problem = require "steelyard.core.problem"
local json = require "steelyard.core.json"
local traffic = require "steelyard.core.traffic"
local tries = require "steelyard.core.tries"

local function entry(...)
    local list = { n = select("#", ...), upstream = "web" }
    for i = 1, list.n do
        local address = select(i, ...)
        list[i] = { id = "id-" .. address, address = address }
    end
    return list
end


local function outcomes_of(list, addresses, statuses, response_times, connect_times, header_times)
    return tries.outcomes(list, {
        addresses = addresses, statuses = statuses, response_times = response_times,
        connect_times = connect_times, header_times = header_times,
    })
end


describe("nginx's lists of tries", function()
    it("are split at commas and at internal redirects", function()
        assert.same({ "10.0.0.1:80", "[::1]:80", "unix:/a:b" }, tries.split("10.0.0.1:80, [::1]:80 : unix:/a:b"))
        assert.same({}, tries.split(nil))
    end)

    it("give a retried request one failure and one completion", function()
        local outcomes = outcomes_of(entry("a:80", "b:80"), "a:80, b:80", "502, 200", "0.000, 0.012", "-, 0.001",
                                     "-, 0.011")
        assert.same({ status = 502, verdict = "failed", seconds = 0, connected = false, answered = false },
                    outcomes[1])
        assert.same({ status = 200, verdict = "completed", seconds = 0.012, connected = true, answered = true },
                    outcomes[2])
    end)

    it("tell nginx's own 502 from one that a server sent", function()
        local outcomes = outcomes_of(entry("a:80", "b:80"), "a:80, b:80", "502, 502", "0.1, 0.1", "0.0, 0.0",
                                     "-, 0.1")
        assert.same({ false, true }, { outcomes[1].answered, outcomes[2].answered })
    end)

    it("may hold tries of another upstream before and between ours", function()
        local outcomes = outcomes_of(entry("a:80", "b:80"), "x:1, a:80 : y:1 : b:80", "502, 503 : 504 : 204",
                                        "1, 2 : 3 : 4", "1, 2 : 3 : 4")
        assert.same({ 503, 204 }, { outcomes[1].status, outcomes[2].status })
        assert.same({ 2, 4 }, { outcomes[1].seconds, outcomes[2].seconds })
    end)

    it("without a status mean that the client went away", function()
        assert.equal("aborted", outcomes_of(entry("a:80"), "a:80", "-", "0.5", "0.001")[1].verdict)
    end)

    it("that end before our tries do are no error", function()
        assert.equal("aborted", outcomes_of(entry("a:80"), nil, nil, nil, nil)[1].verdict)
    end)

    it("count 4xx as completed and 5xx as failed", function()
        assert.equal("completed", tries.verdict(404))
        assert.equal("failed", tries.verdict(500))
    end)
end)


describe("the problem document", function()
    it("says which servers were tried and what happened, by id", function()
        local list = entry("a:80", "b:80")
        local detail = problem.of_request(list, outcomes_of(list, "a:80, b:80", "502, 504", "0, 1", "-, 0.1"))
        assert.equal("upstream web: id-a:80 could not be connected to; id-b:80 did not answer in time", detail)
    end)

    it("says why no server was tried", function()
        local detail, extra = problem.of_request({ n = 0, upstream = "web", why = "no weight table yet" }, {})
        assert.equal("upstream web: no weight table yet", detail)
        assert.equal('{"a":[]}', json.encode({ a = extra.tries }))
    end)

    it("is a problem document", function()
        local document = json.decode(problem.encode(502, "why"))
        assert.same({ type = "about:blank", title = "Bad Gateway", status = 502, detail = "why" }, document)
    end)
end)


describe("a peer's traffic figures", function()
    local function totals(completed, failed, latency_ms)
        return { completed = completed, failed = failed, latency_ms = latency_ms }
    end

    it("are the difference of two totals", function()
        assert.same({ completed = 10, failed = 1, in_flight = 2, latency_ms = 4.5 },
                    traffic.figures(totals(110, 3, 545), totals(100, 2, 500), 2))
    end)

    it("have no latency when nothing was completed", function()
        assert.equal(json.null, traffic.figures(totals(5, 9, 50), totals(5, 1, 50), 0).latency_ms)
    end)

    it("begin again when the totals were lost", function()
        assert.same({ completed = 3, failed = 0, in_flight = 0, latency_ms = 2 },
                    traffic.figures(totals(3, 0, 6), totals(100, 2, 500), 0))
    end)
end)
