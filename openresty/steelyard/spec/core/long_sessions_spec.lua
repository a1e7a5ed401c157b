local address = require "steelyard.core.address"
local long_sessions = require "steelyard.core.long_sessions"

local A, CLIENT, OWN = address.key_of("10.0.0.1", 80), address.key_of("10.1.0.1", 40000), address.key_of("10.2.0.1", 80)
local IPS = { a = "10.0.0.1", b = "10.0.0.2" }
local AT_CLIENT = { [CLIENT] = { closed = 0, count = 1, upstream = "web", locals = { [OWN] = true } } }

local function at_server(count)
    return { [A] = { closed = 0, count = count, upstream = "web" } }
end


describe("long sessions", function()
    local open, web, upstreams, sessions, random

    local function server(id, state)
        return { id = id, address = IPS[id] .. ":80", ip = IPS[id], port = 80, state = state or "up" }
    end

    local function take(peers, unhealthy, fail_open)
        web.table, web.unhealthy, web.fail_open = { peers = peers }, unhealthy or {}, fail_open or false
        web.changes = web.changes + 1
    end

    local function begin(key, peer, client, upstream)
        open[key] = {
            tries = { n = 1, peer }, started = 0, client = client and { client, OWN }, upstream = upstream or "web",
        }
    end

    local function due(now)
        return sessions:due(open, upstreams, now)
    end

    before_each(function()
        open, random = {}, 0.5
        web = { changes = 0, settings = { session_grace_s = 10, session_spread_s = 4 } }
        upstreams = { web = web, api = { changes = 0, unhealthy = {}, settings = {},
                                         table = { peers = { server("a"), server("b") } } } }
        sessions = long_sessions.new(function() return random end)
        take({ server("a"), server("b") })
    end)

    it("belong to the upstream of their last server, wherever an internal redirect led to later", function()
        begin(1, server("a"), CLIENT)
        open[1].tries.earlier = { { upstream = "web" } }
        open[1].upstream = "api" -- which found no server
        take({ server("b") })
        assert.same({}, due(0))
        assert.same(at_server(1), due(12))
    end)

    for how, leave in pairs({
        drained = function() take({ server("a", "drain"), server("b") }) end,
        down = function() take({ server("a", "down"), server("b") }) end,
        deleted = function() take({ server("b") }) end,
        dead = function() take({ server("a"), server("b") }, { a = {} }) end,
        ["of an upstream that is gone"] = function() upstreams.web = nil end,
    }) do
        it("are closed at the server's side after grace and spread: the server is " .. how, function()
            begin(1, server("a"), CLIENT)
            assert.same({}, due(0))
            leave()
            assert.same({}, due(100))
            assert.same({}, due(111.9))
            assert.same(at_server(1), due(112))
        end)
    end

    it("stay if their server is up, a backup, or used because none is healthy", function()
        begin(1, server("a"), CLIENT)
        for _, taken in ipairs({ { { server("a", "backup") } }, { { server("a") }, { a = {} }, true } }) do
            take(unpack(taken))
            due(0)
            assert.same({}, due(1000))
        end
    end)

    it("stay if their server is no longer in the load balancer's subset, and go when it is drained there", function()
        begin(1, server("a"), CLIENT)
        take({ server("b") })
        web.table.all = { server("a"), server("b") }
        due(0)
        assert.same({}, due(1000))
        take({ server("b") })
        web.table.all = { server("a", "drain"), server("b") }
        due(1000)
        assert.same(at_server(1), due(1012))
    end)

    it("stay while no other server serves", function()
        begin(1, server("a"), CLIENT)
        take({ server("a", "drain"), server("b", "down") })
        due(0)
        assert.same({}, due(1000))
    end)

    it("have the whole grace again if their server came back meanwhile", function()
        begin(1, server("a"), CLIENT)
        take({ server("b") })
        due(0)
        take({ server("a"), server("b") })
        due(9)
        take({ server("b") })
        due(20)
        assert.same({}, due(31))
        assert.same(at_server(1), due(32))
    end)

    it("are closed at the client's side while the server has requests that stay or are young", function()
        begin(1, server("a"), CLIENT)
        take({ server("b") })
        due(0)
        begin(2, server("a"), address.key_of("10.1.0.1", 40001))
        assert.same(AT_CLIENT, due(12))
        open[2] = nil
        begin(3, server("a"), address.key_of("10.1.0.1", 40002), "api")
        assert.same(AT_CLIENT, due(13))
    end)

    it("stay meanwhile if others share the client's connection", function()
        begin(1, server("a"), nil)
        take({ server("b") })
        due(0)
        begin(2, server("a"), address.key_of("10.1.0.1", 40001))
        assert.same({}, due(12))
        open[2] = nil
        assert.same(at_server(1), due(13))
    end)

    it("are each closed at a moment of its own", function()
        for key, share in ipairs({ 0, 0.5, 0.99 }) do
            random = share
            begin(key, server("a"))
            due(0)
        end
        take({ server("b") })
        due(0)
        local counts = {}
        for i, now in ipairs({ 9, 10, 12, 14 }) do
            local list = due(now)
            counts[i] = list[A] and list[A].count or 0
        end
        assert.same({ 0, 1, 2, 3 }, counts)
    end)

    it("wait for the remaining time of a session that was closed in place of a due one", function()
        for key, share in ipairs({ 0, 0.5, 0.99 }) do
            random = share
            begin(key, server("a"))
            due(0)
        end
        take({ server("b") })
        due(0)
        assert.equal(1, due(10)[A].count)
        open[3] = nil
        assert.same({}, due(10.1))
        assert.same({}, due(11.9))
        assert.equal(1, due(12)[A].count)
        open[1] = nil -- it has the time of the third
        assert.same({}, due(12.1))
        assert.equal(1, due(14)[A].count)
    end)

    it("are closed at the client's side when they are as old as the limit, a fifth sooner at the most", function()
        web.settings = { session_max_age_s = 100 }
        take({ server("a") })
        begin(1, server("a"), CLIENT)
        due(0)
        assert.same({}, due(89.9))
        assert.same(AT_CLIENT, due(90))
    end)

    it("begin again with another request of the same memory, and at another server", function()
        web.settings = { session_max_age_s = 100 }
        take({ server("a") })
        begin(1, server("a"), CLIENT)
        due(0)
        open[1].started = 80
        assert.same({}, due(95))
        open[1].tries.n, open[1].tries[2] = 2, server("b")
        assert.same({}, due(186))
        assert.same(AT_CLIENT, due(286))
    end)
end)
