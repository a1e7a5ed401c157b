local base64 = require "openresty.steelyard.spec.support.base64"
local orca = require "steelyard.core.orca"


describe("an ORCA load report", function()
    it("is read as text and as JSON alike", function()
        local load = {
            utilization = 0.3, mem_utilization = 0.8, named_metrics = { kv_cache = 0.4, ["utilization.gpu"] = 1 },
        }
        for _, text in ipairs({
            "TEXT cpu_utilization=0.3,mem_utilization=0.8,rps_fractional=10.0,eps=1,named_metrics.kv_cache=0.4,"
                .. "utilization.gpu=1",
            "text cpu_utilization:0.3, mem_utilization:0.8, named_metrics.kv_cache:0.4, utilization.gpu:1",
            'JSON {"cpu_utilization": 0.3, "mem_utilization": 0.8, "rps_fractional": 10.0, "eps": 1, '
                .. '"named_metrics": {"kv_cache": 0.4}, "utilization": {"gpu": 1}, "request_cost": {"x": 1}}',
            'JSON {"cpuUtilization": 0.3, "memUtilization": 0.8, "namedMetrics": {"kv_cache": 0.4}, '
                .. '"utilization": {"gpu": 1}}',
        }) do
            assert.same({ load, false }, { orca.load(text, base64.decode) }, text)
        end
    end)

    it("reports the requests in flight at the server, in each of its forms", function()
        for text, in_flight in pairs({
            ["TEXT cpu_utilization=0.3,named_metrics.in_flight=17"] = 17,
            ["TEXT named_metrics.in_flight: 3.0,eps=1"] = 3,
            ['JSON {"cpu_utilization": 0.3, "named_metrics": {"queue": 4, "in_flight": 9}}'] = 9,
            ["BIN QhQKCWluX2ZsaWdodBEAAAAAAAAIQA=="] = 3,
        }) do
            assert.equal(in_flight, orca.in_flight(text, base64.decode), text)
        end
        for _, text in ipairs({
            "", "TEXT cpu_utilization=0.3", "TEXT named_metrics.not_in_flight=4", "TEXT named_metrics.in_flight=x",
            'JSON {"named_metrics": {"in_flight": null}}', "BIN CQAAAAAAANA/", "BIN !", "BIN aW5fZmxpZ2h0",
        }) do
            assert.is_nil(orca.in_flight(text, base64.decode), text)
        end
    end)

    it("believes the application before its CPU, unless it says 0", function()
        assert.equal(0.9, orca.load("TEXT cpu_utilization=0.3,application_utilization=0.9", base64.decode).utilization)
        assert.equal(0.3, orca.load("TEXT cpu_utilization=0.3,application_utilization=0", base64.decode).utilization)
        assert.equal(0, orca.load("TEXT cpu_utilization=0", base64.decode).utilization)
    end)

    it("may hold nothing that is of use", function()
        assert.same({ nil, false }, { orca.load("TEXT rps_fractional=10.0,eps=1", base64.decode) })
        assert.same({ nil, false }, { orca.load('JSON {"cpu_utilization": null}', base64.decode) })
    end)

    it("keeps eight named metrics, the first by name, and none with a name that is none", function()
        local entries = { "named_metrics.a b=1", "named_metrics." .. ("x"):rep(65) .. "=1" }
        assert.same({ nil, true }, { orca.load("TEXT " .. entries[1], base64.decode) })
        entries = { entries[2] }
        for i = 20, 1, -1 do
            entries[#entries + 1] = string.format("named_metrics.m%02d=%d", i, i)
        end
        local metrics = orca.load("TEXT " .. table.concat(entries, ","), base64.decode).named_metrics
        assert.same({ m01 = 1, m02 = 2, m03 = 3, m04 = 4, m05 = 5, m06 = 6, m07 = 7, m08 = 8 }, metrics)
        local odd = orca.load('JSON {"cpu_utilization": 1, "named_metrics": {"a b": 1, "": 2, "c": "3"}}',
                              base64.decode)
        assert.same({ utilization = 1 }, odd)
    end)

    for _, text in ipairs({
        "", "TEXT", "cpu_utilization=0.3", "TEXT cpu_utilization", "TEXT =1",
        "TEXT cpu_utilization=nan",
        "TEXT cpu_utilization=-0.1", "TEXT cpu_utilization=65", "TEXT cpu_utilization=0x10",
        "TEXT cpu_utilization=1e400",
        "TEXT cpu_utilization=0.1,cpu_utilization=0.2", "TEXT cpu_utilization=--1",
        "JSON", "JSON ", "JSON 1", "JSON [1]",
        'JSON {"cpu_utilization": "0.3"}', 'JSON {"mem_utilization": NaN}', 'JSON {"cpu_utilization": 0.3',
        'JSON {"cpu_utilization": {"a": 1}, "mem_utilization": true}', "JSON " .. ("["):rep(3000),
        "BIN CgAAAA==", "BIN CQAAAAAAANA", "BIN C", "BIN CQ", "BIN CQAAAAAA!NA/", "BIN CQAAAAAA4L8=",
        "BIN CQAAAAAAAPh/",
        "BIN AAE=", "BIN Qv///////////wE=", "BIN C2E=", "BIN QgMKBXE=",
        "TEXT cpu_utilization=0.1" .. (" "):rep(5000), "\0\255", "TEXT \0=1",
    }) do
        it("is malformed, and nothing is believed of it: " .. text:sub(1, 60), function()
            assert.same({ nil, true }, { orca.load(text, base64.decode) })
        end)
    end
end)
