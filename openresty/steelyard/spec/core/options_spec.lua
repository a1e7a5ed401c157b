local options = require "steelyard.core.options"

local function with(changes)
    local given = { memcached = { "127.0.0.1:11211" }, lb = "edge-1", upstreams = { web = {} } }
    for key, value in pairs(changes or {}) do
        given[key] = value or nil
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

    it("have settings of any upstream that the controller lists, and then need name none", function()
        local checked = options.check(with({ upstreams = false, any_upstream = { retries = 5 } }))
        assert.equal(5, checked.any_upstream.retries)
        assert.equal(3, checked.any_upstream.max_fails)
        assert.same({ {}, {} }, { checked.names, checked.declared })
        assert.same({ "web" }, options.check(with({ any_upstream = {} })).names)
        assert.is_nil(options.check(with()).any_upstream)
        for given, message in pairs({
            [true] = "option `any_upstream` must be a table", [{ shards = 8 }] = "`any_upstream.shards` is set",
            [{ bootstrap = {} }] = "`any_upstream.bootstrap` is set", [{ retires = 1 }] = "any_upstream.retires",
            [{ host = "web.internal" }] = "`any_upstream.host` is set",
        }) do
            assert.error_matches(function() options.check(with({ any_upstream = given })) end, message, nil, true)
        end
    end)

    it("name the installation whose list is served", function()
        assert.is_nil(options.check(with()).installation)
        assert.equal("shop", options.check(with({ installation = "shop" })).installation)
        for _, given in ipairs({ "a/b", "a:b", "", 7 }) do
            assert.error_matches(function() options.check(with({ installation = given })) end,
                                 "option `installation` is " .. tostring(given), nil, true)
        end
    end)

    it("share requests in flight, within a share of a core, unless it is turned off", function()
        for given, share in pairs({ [true] = 0.02, [{}] = 0.02, [{ cpu_share = 0.1 }] = 0.1 }) do
            assert.equal(share, options.check(with({ share_in_flight = given })).share_in_flight.cpu_share)
        end
        assert.equal(0.02, options.check(with()).share_in_flight.cpu_share)
        local off = with()
        off.share_in_flight = false
        assert.is_nil(options.check(off).share_in_flight)
        for given, message in pairs({
            [7] = "option `share_in_flight` must be true, false or a table",
            [{ cpu_share = 2 }] = "share_in_flight.cpu_share", [{ cpu = 1 }] = "share_in_flight.cpu",
        }) do
            assert.error_matches(function() options.check(with({ share_in_flight = given })) end, message, nil, true)
        end
    end)

    it("take a bootstrap list of addresses or of rows", function()
        local checked = options.check(with({ upstreams = { web = {
            bootstrap = { "10.0.0.2:80", { id = "a", address = "[::1]:81", weight = 3 } },
        } } }))
        local peers = checked.upstreams.web.bootstrap
        assert.same({ "10.0.0.2:80", "10.0.0.2", 80, 1 }, { peers[1].id, peers[1].ip, peers[1].port, peers[1].weight })
        assert.same({ "a", "[::1]", 81, 3 }, { peers[2].id, peers[2].ip, peers[2].port, peers[2].weight })
    end)

    it("give every upstream retries, passive checks and ejection", function()
        local web = options.check(with()).upstreams.web
        assert.same({ 2, 3, 10 }, { web.retries, web.max_fails, web.fail_timeout_s })
        assert.same({ error_rate = 0.5, requests = 5, consecutive = 5, interval_s = 1, base_s = 5, max_s = 300,
                      share = 0.34 },
                    web.eject)
        assert.is_nil(web.check)
        assert.is_nil(web.picker)
    end)

    it("give every upstream a retry budget, unless it is switched off, and no limit of connections", function()
        local function of(web)
            return options.check(with({ upstreams = { web = web } })).upstreams.web
        end
        assert.same({ share = 0.2, min_per_s = 10 }, of({}).retry_budget)
        assert.same({ share = 0.1, min_per_s = 10 }, of({ retry_budget = { share = 0.1 } }).retry_budget)
        assert.is_nil(of({ retry_budget = false }).retry_budget)
        assert.same({ PURGE = true }, of({ idempotent_methods = { "PURGE" } }).idempotent_methods)
        assert.same({}, { of({}).max_conns, of({}).queue })
        local limited = of({ max_conns = 8, queue = { size = 5 } })
        assert.same({ 8, { size = 5, timeout_s = 1 } }, { limited.max_conns, limited.queue })
        local a, b = { address = "10.0.0.1:80", max_conns = 8 }, { address = "10.0.0.2:80", max_conns = 16 }
        assert.same({ size = 5, timeout_s = 1 }, of({ bootstrap = { a, b }, queue = { size = 5 } }).queue)
    end)

    it("give an upstream time-outs of its own", function()
        local function of(web)
            return options.check(with({ upstreams = { web = web } })).upstreams.web.timeouts
        end
        assert.is_nil(of({}))
        assert.same({ connect_s = 0.5, read_s = 9 }, of({ connect_timeout_s = 0.5, read_timeout_s = 9 }))
        assert.same({ send_s = 1 }, of({ send_timeout_s = 1 }))
    end)

    it("have checks ask by the name of the servers, unless they have one", function()
        local function of(web)
            return options.check(with({ upstreams = { web = web } })).upstreams.web
        end
        assert.is_nil(of({}).host)
        local named = of({ host = "web.internal", check = { path = "/", tls = true } })
        assert.same({ "web.internal", "web.internal", "web.internal" },
                    { named.host, named.check.host, named.check.server_name })
        named = of({ host = "web.internal", check = { path = "/", host = "other.internal:81", tls = true } })
        assert.same({ "other.internal:81", "other.internal" }, { named.check.host, named.check.server_name })
    end)

    it("switch ejection off by false, and a check on by its path", function()
        local web = options.check(with({ upstreams = { web = {
            eject = false, check = { path = "/healthz", statuses = { 204 } },
        } } })).upstreams.web
        assert.is_nil(web.eject)
        local check = web.check
        assert.same({ [204] = true }, check.statuses)
        assert.same({ "/healthz", 2, 1, 2, 3 },
                    { check.path, check.interval_s, check.timeout_s, check.rise, check.fall })
    end)

    it("name the key of a hash picker by nginx's variable", function()
        local function variable(key)
            return options.check(with({ upstreams = { web = { hash_key = key } } })).upstreams.web.hash_variable
        end
        assert.equal("remote_addr", variable(nil))
        assert.equal("request_uri", variable("uri"))
        assert.equal("http_x_user", variable("header:X-User"))
        assert.equal("cookie_session", variable("cookie:session"))
        assert.equal("arg_user", variable("argument:user"))
        assert.equal("request_body", variable("body"))
        assert.equal(math.max, variable(math.max))
    end)

    it("bound a server's share of the requests in flight only if set", function()
        local function factor(given)
            local web = { hash_balance_factor = given, hash_key = math.max }
            return options.check(with({ upstreams = { web = web } })).upstreams.web.hash_balance_factor
        end
        assert.is_nil(factor(nil))
        assert.equal(1, factor(1))
        assert.equal(2.5, factor(2.5))
    end)

    it("take controllers by URL", function()
        local checked = options.check(with({ controller = { "http://10.0.0.5:8081", "http://[::1]/steelyard/" } }))
        assert.same({ host = "10.0.0.5", port = 8081, path_prefix = "", name = "http://10.0.0.5:8081" },
                    checked.controller[1])
        assert.same({ "[::1]", 80, "/steelyard" },
                    { checked.controller[2].host, checked.controller[2].port, checked.controller[2].path_prefix })
    end)

    it("take the controllers' token as it is", function()
        assert.equal("abc.DEF-1/2=", options.check(with({ controller_token = "abc.DEF-1/2=" })).controller_token)
        assert.is_nil(options.check(with()).controller_token)
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
        { "upstreams.web.boostrap", with({ upstreams = { web = { boostrap = {} } } }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { "server-1:80" } } } }) },
        { "upstreams.web.bootstrap", with({
            upstreams = { web = { bootstrap = { { address = "1.2.3.4:5", weight = 0 } } } },
        }) },
        { "upstreams.web.bootstrap: a: max_conns", with({
            upstreams = { web = { bootstrap = { { id = "a", address = "1.2.3.4:5", max_conns = 0 } } } },
        }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { "1.2.3.4:5", "1.2.3.4:5" } } } }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { ["server-1"] = "1.2.3.4:5" } } } }) },
        { "upstreams.web.bootstrap", with({ upstreams = { web = { bootstrap = { [2] = "1.2.3.4:5" } } } }) },
        { "fetch_interval_s", with({ fetch_interval_s = 0 }) },
        { "report_interval_s", with({ report_interval_s = "1" }) },
        { "allow", with({ allow = { "everyone" } }) },
        { "allow", with({ allow = "10.0.0.0/8" }) },
        { "fetch_interval", with({ fetch_interval = 1 }) },
        { "controller", with({ controller = { "https://10.0.0.5" } }) },
        { "controller", with({ controller = "http://10.0.0.5:8081" }) },
        { "key", with({ key = "short" }) },
        { "key", with({ key = "lb." .. ("a"):rep(64) .. "." .. ("b"):rep(63) }) },
        { "controller_token", with({ controller_token = "" }) },
        { "controller_token", with({ controller_token = { "s3cret" } }) },
        { "controller_token", with({ controller_token = "s3cret with a space" }) },
        { "controller_token", with({ controller_token = "s3cret\r\nX: y" }) },
        { "controller_token", with({ controller_token = ("s3cret"):rep(200) }) },
        { "state_dir", with({ state_dir = "state" }) },
        { "upstreams.web.picker", with({ upstreams = { web = { picker = 1 } } }) },
        { "upstreams.web.session_grace_s", with({ upstreams = { web = { session_grace_s = 0 } } }) },
        { "upstreams.web.session_max_age_s", with({ upstreams = { web = { session_max_age_s = "1h" } } }) },
        { "upstreams.web.session_spread_s", with({ upstreams = { web = { session_spread_s = 5 } } }) },
        { "upstreams.web.session_spread_s", with({ upstreams = { web = { session_grace_s = 5,
                                                                         session_spread_s = -1 } } }) },
        { "upstreams.web.picker", with({ upstreams = { web = { picker = { name = "mine" } } } }) },
        { "upstreams.web.picker", with({ upstreams = { web = { picker = { name = "a b", new = print } } } }) },
        { "upstreams.web.hash_key", with({ upstreams = { web = { hash_key = "cookie" } } }) },
        { "upstreams.web.failure_statuses", with({ upstreams = { web = { failure_statuses = {} } } }) },
        { "upstreams.web.failure_statuses", with({ upstreams = { web = { failure_statuses = { "4xx" } } } }) },
        { "upstreams.web.hash_balance_factor", with({ upstreams = { web = { hash_balance_factor = 0.9 } } }) },
        { "upstreams.web.hash_balance_factor", with({ upstreams = { web = { hash_balance_factor = "2" } } }) },
        { "upstreams.web.remember_keys", with({ upstreams = { web = { remember_keys = true } } }) },
        { "upstreams.web.shards", with({ upstreams = { web = { shards = 0 } } }) },
        { "upstreams.web.retries", with({ upstreams = { web = { retries = 1.5 } } }) },
        { "upstreams.web.retry_budget", with({ upstreams = { web = { retry_budget = 0.2 } } }) },
        { "upstreams.web.retry_budget.share", with({ upstreams = { web = { retry_budget = { share = 20 } } } }) },
        { "upstreams.web.retry_budget.floor", with({ upstreams = { web = { retry_budget = { floor = 3 } } } }) },
        { "upstreams.web.idempotent_methods", with({ upstreams = { web = { idempotent_methods = "PURGE" } } }) },
        { "upstreams.web.idempotent_methods", with({ upstreams = { web = { idempotent_methods = { "a b" } } } }) },
        { "upstreams.web.max_conns", with({ upstreams = { web = { max_conns = 0 } } }) },
        { "upstreams.web.max_conns", with({ upstreams = { web = { max_conns = "100" } } }) },
        { "upstreams.web.queue", with({ upstreams = { web = { queue = {} } } }) },
        { "upstreams.web.queue", with({ upstreams = { web = { max_conns = 1, queue = true } } }) },
        { "upstreams.web.queue", with({ upstreams = { web = { -- one server always has room
            queue = {}, bootstrap = { "10.0.0.1:80", { address = "10.0.0.2:80", max_conns = 1 } },
        } } }) },
        { "upstreams.web.queue.timeout_s", with({
            upstreams = { web = { max_conns = 1, queue = { timeout_s = 0 } } },
        }) },
        { "upstreams.web.max_fails", with({ upstreams = { web = { max_fails = -1 } } }) },
        { "upstreams.web.eject", with({ upstreams = { web = { eject = true } } }) },
        { "upstreams.web.eject.error_rate", with({ upstreams = { web = { eject = { error_rate = 2 } } } }) },
        { "upstreams.web.eject.rate", with({ upstreams = { web = { eject = { rate = 1 } } } }) },
        { "upstreams.web.load_metrics_format", with({ upstreams = { web = { load_metrics_format = "BIN" } } }) },
        { "upstreams.web.load_metrics_format", with({ upstreams = { web = { load_metrics_format = true } } }) },
        { "upstreams.web.grpc", with({ upstreams = { web = { grpc = "yes" } } }) },
        { "upstreams.web.cost", with({ upstreams = { web = { cost = 5 } } }) },
        { "upstreams.web.cost", with({ upstreams = { web = { cost = "arg tokens" } } }) },
        { "upstreams.web.cost_at_end", with({ upstreams = { web = { cost_at_end = "upstream http" } } }) },
        { "upstreams.web.cost_at_end", with({ upstreams = { web = { cost = "arg_a", cost_at_end = {} } } }) },
        { "upstreams.web.host", with({ upstreams = { web = { host = "web.internal:443" } } }) },
        { "upstreams.web.host", with({ upstreams = { web = { host = "10.0.0.1" } } }) },
        { "upstreams.web.connect_timeout_s", with({ upstreams = { web = { connect_timeout_s = 0 } } }) },
        { "upstreams.web.send_timeout_s", with({ upstreams = { web = { send_timeout_s = "1" } } }) },
        { "upstreams.web.read_timeout_s", with({ upstreams = { web = { read_timeout_s = false } } }) },
        { "upstreams.web.load_metrics_format", with({
            upstreams = { web = { grpc = true, load_metrics_format = "TEXT" } },
        }) },
        { "upstreams.web.sticky", with({ upstreams = { web = { sticky = "route" } } }) },
        { "upstreams.web.sticky.cookie", with({ upstreams = { web = { sticky = {} } } }) },
        { "upstreams.web.sticky.cookie", with({ upstreams = { web = { sticky = { cookie = "a=b" } } } }) },
        { "upstreams.web.subset_size", with({ upstreams = { web = { subset_size = 0 } } }) },
        { "upstreams.web.subset_size", with({
            upstreams = { web = { subset_size = 100, sticky = { cookie = "route" } } },
        }) },
        { "upstreams.web.check.path", with({ upstreams = { web = { check = { path = "healthz" } } } }) },
        { "upstreams.web.check.path", with({ upstreams = { web = { check = { path = "/ HTTP/1.0\r\nX: y" } } } }) },
        { "upstreams.web.check.host", with({ upstreams = { web = { check = { path = "/", host = "a b" } } } }) },
        { "upstreams.web.check.statuses", with({
            upstreams = { web = { check = { path = "/", statuses = { 20 } } } },
        }) },
    }
    for _, case in ipairs(cases) do
        it("is an error that names it and the remedy: " .. case[1], function()
            local ok, err = pcall(options.check, case[2])
            assert.is_false(ok)
            assert.truthy(err:find("option `" .. case[1] .. "`", 1, true), err)
            assert.truthy(err:find("; ", 1, true), err)
            assert.is_nil(err:find("s3cret", 1, true), err)
        end)
    end

    it("is also no table at all", function()
        assert.has_error(function() options.check(nil) end)
    end)
end)
