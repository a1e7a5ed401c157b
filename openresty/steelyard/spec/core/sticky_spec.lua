local counted_breaths = require "openresty.steelyard.spec.support.counted_breaths"
local no_pause = require("resty.vnswrr").no_pause
local sticky = require "steelyard.core.sticky"

-- A simple keyed hash: 20 digits, 16 of them used.
local function digest(secret, text)
    return (secret .. text .. ("."):rep(20)):sub(1, 20)
end


local function peer(id, state)
    return { id = id, address = id .. ":80", state = state or "up", weight = 1 }
end


local function settings(changes)
    local given = { cookie = "route" }
    for option, value in pairs(changes or {}) do
        given[option] = value
    end
    return sticky.of_option(given, "sticky")
end


--- Sessions at the peers; `up` peers are eligible, unless they are in `unhealthy`.
local function sessions(peers, unhealthy, before)
    local live, eligible = before or sticky.new(settings(), digest), {}
    for _, each in ipairs(peers) do
        if each.state == "up" and not (unhealthy or {})[each.id] then
            eligible[#eligible + 1] = each
        end
    end
    live:use(live:prepared(peers, eligible, unhealthy or {}, no_pause))
    return live
end


describe("a sticky session", function()
    it("is at the peer that its cookie names", function()
        local a, b = peer("a"), peer("b")
        local live = sessions({ a, b })
        assert.equal(a, live:peer("a" .. ("."):rep(15)))
        assert.equal(b, live:peer("b" .. ("."):rep(15)))
    end)

    it("begins with a cookie that names the peer, once", function()
        local a, b = peer("a"), peer("b")
        local live = sessions({ a, b })
        assert.equal("route=a...............; Path=/; HttpOnly; SameSite=Lax", live:set_cookie(a, nil, false))
        assert.is_nil(live:set_cookie(a, "a...............", false))
        assert.equal("route=b...............; Path=/; HttpOnly; SameSite=Lax",
                     live:set_cookie(b, "a...............", false))
    end)

    it("is nowhere without a cookie, nor with a forged one", function()
        local live = sessions({ peer("a") })
        for _, value in ipairs({ "", "a", "a:80", ("a"):rep(10000), "\0", "a................" }) do
            assert.is_nil(live:peer(value))
        end
        assert.is_nil(live:peer(nil))
    end)

    it("is found among several cookies of its name", function()
        local a, b = peer("a"), peer("b")
        local live = sessions({ a, b })
        local value_a, value_b = "a...............", "b..............."
        for header, named in pairs({
            ["route=stale; route=" .. value_a] = a,
            ["route=" .. value_b .. "; route=" .. value_a] = b,
            ["x=1; route=; route=stale;route=" .. value_b .. "; y=2"] = b,
            ["route=stale,route=" .. value_a] = a,
            ["myroute=" .. value_a .. "; route=stale; route=" .. value_b] = b,
            ["x=route=" .. value_a] = false,
            ["route=" .. value_a .. "x; route=" .. string.sub(value_b, 1, 15)] = false,
            ["route=stale; Route=" .. value_a] = false,
            ["route"] = false, ["route="] = false, ["="] = false, [""] = false,
        }) do
            assert.equal(named or nil, live:peer_in(header), header)
        end
        assert.is_true(live:names("route=stale; route=" .. value_a, a))
        assert.is_false(live:names("route=stale; route=" .. value_a, b))
        assert.is_false(live:names("route=stale", a))
        assert.is_false(live:names("route=stale; route=" .. value_a, peer("gone")))
    end)

    it("is looked for in a bounded part of the header", function()
        local a = peer("a")
        local live = sessions({ a })
        local function after(bytes)
            return string.rep("x", bytes - 2) .. "; route=a..............."
        end
        assert.equal(a, live:peer_in(after(16000)))
        assert.is_nil(live:peer_in(string.rep("route=stale; ", 2000) .. "route=a..............."))
    end)

    it("goes on at a peer that is drained, unless that is not healthy", function()
        local drained = peer("a", "drain")
        assert.equal(drained, sessions({ drained, peer("b") }):peer("a..............."))
        assert.is_nil(sessions({ drained, peer("b") }, { a = true }):peer("a..............."))
    end)

    it("ends if its peer is down, out, a backup that waits, or gone", function()
        local value = "a..............."
        local live = sessions({ peer("a"), peer("b") })
        for _, state in ipairs({ "down", "backup" }) do
            assert.is_nil(sessions({ peer("a", state), peer("b") }, nil, live):peer(value))
        end
        assert.is_nil(sessions({ peer("b") }, nil, live):peer(value))
        assert.is_nil(sessions({ peer("a"), peer("b") }, { a = true }, live):peer(value))
        assert.truthy(sessions({ peer("a"), peer("b") }, nil, live):peer(value))
    end)

    it("begins nowhere with a peer that has left the table meanwhile", function()
        assert.is_nil(sessions({ peer("b") }):set_cookie(peer("a"), nil, false))
    end)

    it("hashes each peer once", function()
        local hashed = 0
        local live = sticky.new(settings(), function(...)
            hashed = hashed + 1
            return digest(...)
        end)
        sessions({ peer("a"), peer("b") }, nil, live)
        sessions({ peer("a"), peer("b"), peer("c") }, nil, live)
        assert.equal(3, hashed)
    end)

    it("pauses between many peers", function()
        local peers, breathe, breaths = {}, counted_breaths()
        for i = 1, 1000 do
            peers[i] = peer(string.format("server-%04d", i))
        end
        sticky.new(settings(), digest):prepared(peers, peers, {}, breathe)
        assert.equal(40, breaths())
    end)
end)


describe("the cookie", function()
    local function cookie(changes, is_https)
        local live = sticky.new(settings(changes), digest)
        live:use(live:prepared({ peer("a") }, {}, {}, no_pause))
        return live:set_cookie(peer("a"), nil, is_https)
    end

    it("is for encrypted connections alone if the client came by one, or if set so", function()
        assert.equal("route=a...............; Path=/; HttpOnly; SameSite=Lax; Secure", cookie({}, true))
        assert.equal("route=a...............; Path=/; HttpOnly; SameSite=Lax; Secure", cookie({ secure = true }, false))
        assert.equal("route=a...............; Path=/; HttpOnly; SameSite=Lax", cookie({ secure = false }, true))
    end)

    it("has the attributes from the options", function()
        assert.equal("id=a...............; Path=/shop; Domain=example.com; Max-Age=3600; HttpOnly; SameSite=Strict",
                     cookie({ cookie = "id", path = "/shop", domain = "example.com", max_age_s = 3600,
                              same_site = "Strict" }))
    end)

    it("is hashed with the secret", function()
        assert.equal("route=ssssssssssssssss; Path=/; HttpOnly; SameSite=Lax", cookie({ secret = ("s"):rep(16) }))
    end)

    local mistakes = {
        { "secret", { secret = "short" } }, { "path", { path = "shop" } }, { "path", { path = "/; Secure" } },
        { "domain", { domain = "a b" } }, { "max_age_s", { max_age_s = 0 } }, { "max_age_s", { max_age_s = 1.5 } },
        { "same_site", { same_site = "lax" } }, { "same_site", { same_site = 1 } }, { "secure", { secure = "auto" } },
        { "same_site", { same_site = "None" } }, { "same_site", { same_site = "None", secure = false } },
        { "cookie", { cookie = "a b" } }, { "cookie", { cookie = true } }, { "expires", { expires = "1h" } },
    }
    for _, case in ipairs(mistakes) do
        it("is refused with a wrong option, which is named: " .. case[1], function()
            local ok, err = pcall(settings, case[2])
            assert.is_false(ok)
            assert.truthy(err:find("sticky." .. case[1], 1, true), err)
            assert.is_nil(err:find("short", 1, true), err)
        end)
    end
end)
