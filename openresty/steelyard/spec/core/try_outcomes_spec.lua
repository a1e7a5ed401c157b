local json = require "steelyard.core.json"
local problem = require "steelyard.core.problem"
local try_outcomes = require "steelyard.core.try_outcomes"

local function tries_at(...)
    local tries = { n = select("#", ...) }
    for i = 1, tries.n do
        local address = select(i, ...)
        tries[i] = { id = "id-" .. address, address = address }
    end
    return tries
end


local function outcomes_of(tries, addresses, statuses, connect_times, header_times, bytes_sent)
    return try_outcomes.outcomes(tries, {
        addresses = addresses, statuses = statuses, connect_times = connect_times, header_times = header_times,
        bytes_sent = bytes_sent,
    })
end


describe("a grpc-status", function()
    it("is a failure if Envoy takes it for a 5xx", function()
        local failing = {}
        for code = 0, 17 do
            if try_outcomes.grpc_verdict(tostring(code)) == "failed" then
                failing[#failing + 1] = code
            end
        end
        assert.same({ 2, 4, 12, 13, 14, 15, 17 }, failing)
    end)

    it("that is no code is a failure", function()
        for _, text in ipairs({ "", "OK", "-1", "0.5" }) do
            assert.equal("failed", try_outcomes.grpc_verdict(text))
        end
    end)
end)


describe("nginx's lists of tries", function()
    it("are split at commas and at internal redirects", function()
        assert.same({ "10.0.0.1:80", "[::1]:80", "unix:/a:b" }, try_outcomes.split("10.0.0.1:80, [::1]:80 : unix:/a:b"))
        assert.same({}, try_outcomes.split(nil))
    end)

    it("have a try without an address, or with the previous one, if there was no server for it", function()
        assert.same({ "", "b:80" }, try_outcomes.split(" : b:80"))
        local statuses, times = "502 : 200", "- : 0.001"
        assert.equal(200, outcomes_of(tries_at("b:80"), " : b:80", statuses, times, times)[1].status)
        local twice = tries_at("b:80", "b:80")
        twice.stuck_after = { true }
        statuses, times = "503, 502 : 200", "0.001, - : 0.001"
        assert.equal(200, outcomes_of(twice, "b:80, b:80 : b:80", statuses, times, times)[2].status)
    end)

    it("give a retried request one failure and one completion", function()
        local outcomes = outcomes_of(tries_at("a:80", "b:80"), "a:80, b:80", "502, 200", "-, 0.001", "-, 0.012",
                                     "0, 61")
        assert.same({ status = 502, verdict = "failed", connected = false, sent = false, answered = false },
                    outcomes[1])
        assert.same({ status = 200, verdict = "completed", latency_ms = 12, connected = true, sent = true,
                      answered = true }, outcomes[2])
    end)

    it("without the bytes sent mean that something was sent", function()
        assert.is_true(outcomes_of(tries_at("a:80"), "a:80", "502", "-", "-")[1].sent)
    end)

    it("distinguish nginx's own 502 from one that a server sent", function()
        local outcomes = outcomes_of(tries_at("a:80", "b:80"), "a:80, b:80", "502, 502", "0.0, 0.0", "-, 0.1")
        assert.same({ false, true }, { outcomes[1].answered, outcomes[2].answered })
    end)

    it("may hold tries of another upstream before and between ours", function()
        local outcomes = outcomes_of(tries_at("a:80", "b:80"), "x:1, a:80 : y:1 : b:80", "502, 503 : 504 : 204",
                                        "1, 2 : 3 : 4", "1, 2 : 3 : 4")
        assert.same({ 503, 204 }, { outcomes[1].status, outcomes[2].status })
        assert.same({ 2000, 4000 }, { outcomes[1].latency_ms, outcomes[2].latency_ms })
    end)

    it("without a status mean that the client went away", function()
        assert.equal("aborted", outcomes_of(tries_at("a:80"), "a:80", "-", "0.001")[1].verdict)
    end)

    it("that end before our tries do are no error", function()
        assert.equal("aborted", outcomes_of(tries_at("a:80"), nil, nil, nil)[1].verdict)
    end)

    it("give no latency if no header came, nor for an upgrade", function()
        local outcomes = outcomes_of(tries_at("a:80", "b:80", "c:80"), "a:80, b:80, c:80", "502, 101, 200",
                                     "0.0, 0.0, 0.0", "-, 0.003, 0.004")
        assert.same({ nil, nil, 4 }, { outcomes[1].latency_ms, outcomes[2].latency_ms, outcomes[3].latency_ms })
    end)

    it("count 4xx as completed and 5xx as failed", function()
        assert.equal("completed", try_outcomes.verdict(404))
        assert.equal("failed", try_outcomes.verdict(500))
    end)
end)


describe("the problem document", function()
    it("lists the tried servers and their outcomes, by id", function()
        local tries = tries_at("a:80", "b:80")
        local detail = problem.of_request({ tries = tries, upstream = "web", failure = {} },
                                          outcomes_of(tries, "a:80, b:80", "502, 504", "-, 0.1"))
        assert.equal("upstream web: id-a:80 could not be connected to; id-b:80 did not answer in time", detail)
    end)

    it("says why no server was tried", function()
        local detail, extra = problem.of_request({
            tries = { n = 0 }, upstream = "web", failure = { why = "no weight table yet" },
        }, {})
        assert.equal("upstream web: no weight table yet", detail)
        assert.equal('{"a":[]}', json.encode({ a = extra.tries }))
    end)

    it("is a problem document", function()
        local document = json.decode(problem.encode(502, "why"))
        assert.same({ type = "about:blank", title = "Bad Gateway", status = 502, detail = "why" }, document)
    end)

    it("reads the first hundred ms from its table as it reads all other times", function()
        for ms = 0, 120 do
            assert.equal(ms, try_outcomes.latency_ms(200, string.format("%.3f", ms / 1000)))
        end
        assert.is_nil(try_outcomes.latency_ms(101, "0.003"))
        assert.is_nil(try_outcomes.latency_ms(502, "-"))
        assert.is_nil(try_outcomes.latency_ms(502, nil))
    end)
end)
