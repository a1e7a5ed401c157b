local check_settings = require "steelyard.core.check_settings"
local check_verdict = require "steelyard.core.check_verdict"

local SETTINGS = { rise = 2, fall = 3 }


--- Return the states and changes along a string of checks: "+" good, "-" failed.
local function walk(checks, state)
    local seen = {}
    for outcome in string.gmatch(checks, ".") do
        local changed
        state, changed = check_verdict.step(state, outcome == "+", SETTINGS)
        seen[#seen + 1] = changed or (state.up and "+" or "-")
    end
    return table.concat(seen, " ")
end


describe("the checks of a peer", function()
    it("decide at once the first time", function()
        assert.equal("+ +", walk("++"))
        assert.equal("down -", walk("--"))
    end)

    it("take it out after `fall` failures in a row", function()
        assert.equal("+ + + + + + down -", walk("+--+----"))
        assert.equal("+ + + down", walk("+---"))
    end)

    it("bring it back after `rise` successes in a row", function()
        assert.equal("down - - - up +", walk("-+-+++"))
    end)

    it("count from the beginning after a change", function()
        assert.equal("down - up + + down", walk("-++---"))
    end)

    it("do not touch the state that was passed in", function()
        local state = { up = true, streak = 1 }
        check_verdict.step(state, false, SETTINGS)
        assert.same({ up = true, streak = 1 }, state)
    end)
end)


describe("the state of a peer as text", function()
    it("comes back as it was", function()
        for _, state in ipairs({ { up = true, streak = 2 }, { up = false, streak = 0 } }) do
            assert.same(state, check_verdict.read(check_verdict.write(state, "[::1]:80"), "[::1]:80"))
        end
    end)

    it("is nothing for another address, so the peer begins again", function()
        assert.is_nil(check_verdict.read(check_verdict.write({ up = false, streak = 0 }, "10.0.0.1:80"), "10.0.0.1:81"))
    end)

    it("is nothing when there is none, or garbage", function()
        assert.is_nil(check_verdict.read(nil, "10.0.0.1:80"))
        assert.is_nil(check_verdict.read("10.0.0.1:80 down", "10.0.0.1:80"))
    end)
end)


describe("the verdict on an answer", function()
    it("is good for a status of the set", function()
        assert.is_true(check_verdict.judge(204, nil, { statuses = { [200] = true, [204] = true } }))
    end)

    it("lists the wanted statuses otherwise", function()
        local settings = check_settings.of_options("check", { path = "/", statuses = { 599, 204, 205, 200, 206 } })
        assert.same({ false, "answered 503, wants 200, 204-206, 599" },
                    { check_verdict.judge(503, nil, settings) })
    end)

    it("of gRPC is good for SERVING alone", function()
        local settings = check_settings.of_options("check", { grpc_service = "" })
        assert.is_true(check_verdict.judge("SERVING", nil, settings))
        assert.same({ false, "answered NOT_SERVING, wants SERVING" },
                    { check_verdict.judge("NOT_SERVING", nil, settings) })
    end)

    it("is the reason when there was no answer", function()
        assert.same({ false, "connection refused" }, { check_verdict.judge(nil, "connection refused", {}) })
    end)
end)


describe("the remedy for a failure of TLS", function()
    it("says which setting is wrong, and where", function()
        assert.matches("tls_server_name", check_verdict.remedy("TLS: certificate host mismatch"))
        for _, why in ipairs({ "TLS: 18: self-signed certificate", "TLS: 22: certificate chain too long" }) do
            assert.matches("lua_ssl_trusted_certificate", check_verdict.remedy(why))
        end
    end)

    it("names the versions if there is no handshake", function()
        assert.matches("lua_ssl_protocols", check_verdict.remedy("TLS: handshake failed"))
    end)

    it("is not there for other trouble", function()
        for _, why in ipairs({ "connection refused", "TLS: timeout", "TLS: 10: certificate has expired" }) do
            assert.is_nil(check_verdict.remedy(why))
        end
    end)
end)


describe("the moment of a check", function()
    it("comes once an interval, however often one looks", function()
        for _, phase in ipairs({ 0, 0.25, 0.999 }) do
            local times, now = 0, 1000
            for step = 1, 100 do
                local later = now + (step % 7) * 0.05
                times = times + (check_verdict.due(phase, now, later, 2) and 1 or 0)
                now = later
            end
            -- 100 steps of 0..0.3 s are 14.85 s (the last seven stop short): seven intervals.
            assert.is_true(times == 7 or times == 8)
        end
    end)

    it("is another one for another peer", function()
        assert.is_true(check_verdict.due(0.1, 1000, 1000.5, 2))
        assert.is_false(check_verdict.due(0.6, 1000, 1000.5, 2))
        assert.is_true(check_verdict.due(0.6, 1001, 1001.5, 2))
    end)

    it("has come for every peer when a whole interval went by", function()
        for i = 0, 9 do
            assert.is_true(check_verdict.due(i / 10, 1000, 1002, 2))
        end
    end)
end)
