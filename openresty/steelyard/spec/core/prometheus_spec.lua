local prometheus = require "steelyard.core.prometheus"

local function no_pause() end


local function peer(id, fields)
    local row = {
        id = id, address = "10.0.0.1:80", state = "up", weight = 267, baseline = 333,
        eligible = true, share = 0.25, health = "ok",
        picks = 9, completed = 7, timed = 7, failed = 2, latency_total_ms = 1250, in_flight = 3,
    }
    for key, value in pairs(fields or {}) do
        row[key] = value
    end
    return row
end


local function upstream(peers, fields)
    local one = {
        rung = "fresh", drift = 0, fail_open = false, picker = "vnswrr2", picker_asked = "vnswrr2",
        age_s = 0.5, term = 3, generation = 41, refused = { older = 2, type = 0 }, peers = peers,
    }
    for key, value in pairs(fields or {}) do
        one[key] = value
    end
    return one
end


local function document(upstreams)
    return {
        version = "0.1.0", lb = "edge-1", platform = "debian", workers = { {}, {} },
        fetch_errors = 4, controller_errors = 6, report_errors = 5, load_reports_malformed = 8, upstreams = upstreams,
        timer_errors = 9, dict_refused = 10, cells = 32768, cells_in_use = 11,
        share_in_flight = { state = "on", balancers = 8, age_s = 0.006, interval_s = 0.005, errors = 12 },
    }
end


--- Return the samples of a family, without its name.
local function samples(upstreams, family)
    local pieces = {}
    prometheus.write(document(upstreams), function(piece) pieces[#pieces + 1] = piece end, no_pause)
    local lines = {}
    for line in string.gmatch(table.concat(pieces), "[^\n]+") do
        local rest = string.match(line, "^steelyard_" .. family .. "(.*)$")
        if rest then
            lines[#lines + 1] = rest
        end
    end
    return lines, pieces
end


describe("the metrics", function()
    it("say how large a subset is, if there is one", function()
        assert.same({}, samples({ web = upstream({}) }, "upstream_subset_peers"))
        local web = upstream({}, { subset = { servers = 126, of = 2000 } })
        assert.same({ '{upstream="web"} 126' }, samples({ web = web }, "upstream_subset_peers"))
    end)

    it("give version and platform", function()
        assert.same({ '{version="0.1.0",lb="edge-1",platform="debian"} 1' }, samples({}, "build_info"))
        assert.same({ " 2" }, samples({}, "workers"))
        assert.same({ " 4" }, samples({}, "fetch_errors_total"))
        assert.same({ " 6" }, samples({}, "controller_errors_total"))
        assert.same({ " 5" }, samples({}, "report_errors_total"))
        assert.same({ " 8" }, samples({}, "load_reports_malformed_total"))
        assert.same({ " 9" }, samples({}, "timer_errors_total"))
        assert.same({ " 10" }, samples({}, "dict_refused_total"))
        assert.same({ "32768" }, samples({}, "cells "))
        assert.same({ " 11" }, samples({}, "cells_in_use"))
        assert.same({ " 1" }, samples({}, "exchange_on"))
        assert.same({ " 8" }, samples({}, "exchange_balancers"))
        assert.same({ " 0.006" }, samples({}, "exchange_age_seconds"))
        assert.same({ " 12" }, samples({}, "exchange_errors_total"))
    end)

    it("have a series for each rung, and 1 at the one that is stood on", function()
        assert.same({
            '{upstream="web",rung="fresh"} 0', '{upstream="web",rung="hold"} 0', '{upstream="web",rung="drift"} 1',
            '{upstream="web",rung="saved"} 0', '{upstream="web",rung="bootstrap"} 0', '{upstream="web",rung="none"} 0',
        }, samples({ web = upstream({}, { rung = "drift" }) }, "upstream_rung"))
    end)

    it("count retries, refused retries, and requests that met full peers", function()
        local web = { web = upstream({}, { retries = 7, retries_refused = 2, max_conns = 9, full = 3, queued = 4 }) }
        assert.same({ '{upstream="web"} 7' }, samples(web, "upstream_retries_total"))
        assert.same({ '{upstream="web"} 2' }, samples(web, "upstream_retries_refused_total"))
        assert.same({ '{upstream="web"} 9' }, samples(web, "upstream_max_conns"))
        assert.same({ '{upstream="web"} 3' }, samples(web, "upstream_full_total"))
        assert.same({ '{upstream="web"} 4' }, samples(web, "upstream_queued_total"))
    end)

    it("count requests that were not logged", function()
        local web = { web = upstream({}, { unlogged = 3 }) }
        assert.same({ '{upstream="web"} 3' }, samples(web, "upstream_unlogged_total"))
    end)

    it("count subrequests, and those with a known outcome", function()
        local web = { web = upstream({}, { subrequests = 5, subrequests_counted = 4 }) }
        assert.same({ '{upstream="web"} 5' }, samples(web, "upstream_subrequests_total"))
        assert.same({ '{upstream="web"} 4' }, samples(web, "upstream_subrequests_counted_total"))
    end)

    it("say of how many peers nothing is counted", function()
        assert.same({ '{upstream="web"} 7' },
                    samples({ web = upstream({}, { without_cell = 7 }) }, "upstream_peers_without_cell"))
    end)

    it("put upstreams in order of their names", function()
        assert.same({ '{upstream="api"} 0.75', '{upstream="web"} 0' },
                    samples({ web = upstream({}), api = upstream({}, { drift = 0.75 }) }, "upstream_drift_ratio"))
    end)

    it("count refusals by reason", function()
        assert.same({ '{upstream="web",reason="older"} 2', '{upstream="web",reason="type"} 0' },
                    samples({ web = upstream({}) }, "table_refused_total"))
    end)

    it("leave out unknown figures", function()
        local web = upstream({})
        web.age_s, web.term = require("steelyard.core.json").null, nil
        assert.same({}, samples({ web = web }, "table_age_seconds"))
        assert.same({}, samples({ web = web }, "table_term"))
        assert.same({ '{upstream="web"} 41' }, samples({ web = web }, "table_generation"))
    end)

    it("show the state and work of each peer", function()
        local web = { web = upstream({ peer("a", { eligible = false, health = "fails" }) }) }
        assert.same({ '{upstream="web",peer="a",address="10.0.0.1:80",state="up"} 1' }, samples(web, "peer_info"))
        assert.same({ '{upstream="web",peer="a"} 267' }, samples(web, "peer_weight"))
        assert.same({ '{upstream="web",peer="a"} 333' }, samples(web, "peer_baseline_weight"))
        assert.same({ '{upstream="web",peer="a"} 0.25' }, samples(web, "peer_share_ratio"))
        assert.same({ '{upstream="web",peer="a"} 0' }, samples(web, "peer_eligible"))
        assert.same({ '{upstream="web",peer="a"} 3' }, samples(web, "peer_in_flight"))
        assert.same({ '{upstream="web",peer="a"} 9' }, samples(web, "peer_picks_total"))
        assert.same({
            '{upstream="web",peer="a",outcome="completed"} 7', '{upstream="web",peer="a",outcome="failed"} 2',
        }, samples(web, "peer_requests_total"))
        assert.same({
            '{upstream="web",peer="a",health="ok"} 0', '{upstream="web",peer="a",health="fails"} 1',
            '{upstream="web",peer="a",health="ejected"} 0', '{upstream="web",peer="a",health="check"} 0',
        }, samples(web, "peer_health"))
        web.web.peers[1].health = "marked"
        assert.equal('{upstream="web",peer="a",health="marked"} 1', samples(web, "peer_health")[5])
    end)

    it("give latency in seconds", function()
        assert.same({ '_sum{upstream="web",peer="a"} 1.25', '_count{upstream="web",peer="a"} 7' },
                    samples({ web = upstream({ peer("a") }) }, "peer_latency_seconds"))
    end)

    it("escape characters that a label may not hold", function()
        assert.same({ [[{upstream="web",peer="a\\\"b\nc"} 267]] },
                    samples({ web = upstream({ peer('a\\"b\nc') }) }, "peer_weight"))
    end)

    it("write counters of 14 digits whole", function()
        assert.same({ '{upstream="web",peer="a"} 99999999999999' },
                    samples({ web = upstream({ peer("a", { picks = 99999999999999 }) }) }, "peer_picks_total"))
    end)

    it("come in pieces, each sample once, and families whole", function()
        local peers = {}
        for i = 1, 1000 do
            peers[i] = peer(string.format("s%04d", i))
        end
        local weights, pieces = samples({ web = upstream(peers) }, "peer_weight")
        assert.equal(1000, #weights)
        assert.is_true(#pieces > 50)
        for i = 1, 1000 do
            assert.equal(string.format('{upstream="web",peer="s%04d"} 267', i), weights[i])
        end
        local seen, last = {}, nil
        for name in string.gmatch("\n" .. table.concat(pieces), "\n# TYPE ([%w_]+)") do
            assert.is_nil(seen[name])
            seen[name], last = true, name
        end
        assert.equal("steelyard_peer_latency_seconds", last)
    end)
end)
