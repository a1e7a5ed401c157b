local options = require "steelyard.core.options"

local function with(changes)
    local given = { memcached = { "127.0.0.1:11211" }, lb = "edge-1", upstreams = { web = {} } }
    for key, value in pairs(changes or {}) do
        given[key] = value
    end
    return given
end


describe("the options", function()
    it("have defaults", function()
        local checked = options.check(with())
        assert.same({ "steelyard", 0.5, 1 }, { checked.dict, checked.fetch_interval_s, checked.report_interval_s })
        assert.same({ fresh_s = 3, hold_s = 60, drift_s = 300 }, checked.limits)
        assert.same({ "web" }, checked.names)
    end)

    it("take a bootstrap list of addresses or of rows", function()
        local checked = options.check(with({ upstreams = { web = {
            bootstrap = { "10.0.0.2:80", { id = "a", address = "[::1]:81", weight = 3 } },
        } } }))
        local peers = checked.upstreams.web.bootstrap
        assert.same({ "10.0.0.2:80", "10.0.0.2", 80, 1 }, { peers[1].id, peers[1].ip, peers[1].port, peers[1].weight })
        assert.same({ "a", "[::1]", 81, 3 }, { peers[2].id, peers[2].ip, peers[2].port, peers[2].weight })
    end)

    it("call a table stale only after three fetches", function()
        assert.equal(30, options.check(with({ fetch_interval_s = 10 })).limits.fresh_s)
    end)
end)


describe("a bad option", function()
    local cases = {
        { "memcached", with({ memcached = "127.0.0.1:11211" }) },
        { "memcached", with({ memcached = {} }) },
        { "memcached", with({ memcached = { "localhost" } }) },
        { "lb", with({ lb = "edge 1" }) },
        { "upstreams", with({ upstreams = {} }) },
        { "upstreams", with({ upstreams = { "web" } }) },
        { "upstreams.web", with({ upstreams = { web = { boostrap = {} } } }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { "server-1:80" } } } }) },
        { "upstreams.web.bootstrap", with({
            upstreams = { web = { bootstrap = { { address = "1.2.3.4:5", weight = 0 } } } },
        }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { "1.2.3.4:5", "1.2.3.4:5" } } } }) },
        { "fetch_interval_s", with({ fetch_interval_s = 0 }) },
        { "report_interval_s", with({ report_interval_s = "1" }) },
        { "allow", with({ allow = { "everyone" } }) },
        { "allow", with({ allow = "10.0.0.0/8" }) },
        { "fetch_interval", with({ fetch_interval = 1 }) },
    }
    for _, case in ipairs(cases) do
        it("is an error that names it and the remedy: " .. case[1], function()
            local ok, err = pcall(options.check, case[2])
            assert.is_false(ok)
            assert.truthy(err:find("option `" .. case[1] .. "`", 1, true), err)
            assert.truthy(err:find("; ", 1, true), err)
        end)
    end

    it("is also no table at all", function()
        assert.has_error(function() options.check(nil) end)
    end)
end)
