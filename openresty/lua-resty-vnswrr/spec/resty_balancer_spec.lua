local vnswrr = require "resty.vnswrr"

--- The count of each id in n picks.
local function counts(ring, n)
    local seen = {}
    for _ = 1, n do
        local id = ring:find()
        seen[id] = (seen[id] or 0) + 1
    end
    return seen
end


-- The methods of roundrobin and swrr in lua-resty-balancer's README and tests.
describe("in place of lua-resty-balancer's", function()
    it("tells what all weights are multiples of", function()
        assert.equal(2, vnswrr:new({ server1 = 8, server2 = 4, server3 = 2 }).gcd)
        assert.equal(0.5, vnswrr:new({ server1 = 1.5, server2 = 2 }).gcd)
    end)

    it("counts exactly", function()
        assert.same({ server1 = 60000, server2 = 30000, server3 = 10000 },
                    counts(vnswrr:new({ server1 = 6, server2 = 3, server3 = 1 }), 100000))
    end)

    it("starts anywhere for a second argument of true", function()
        local servers, firsts = { server1 = 1, server2 = 1, server3 = 1, server4 = 1 }, {}
        for _ = 1, 1000 do
            firsts[vnswrr:new(servers, true):find()] = true
        end
        assert.same({ server1 = true, server2 = true, server3 = true, server4 = true }, firsts)
    end)

    it("takes weights that are strings", function()
        local ring = vnswrr:new({ server1 = "0", server2 = "1", server3 = "0" }, true)
        assert.equal("server2", ring:find())
        ring:incr("server1", "2")
        ring:set("server3", "3")
        ring:decr("server2", "1")
        assert.same({ server1 = 2, server3 = 3 }, counts(ring, 5))
        ring:reinit_sorted({ "a", "b" }, { "2", 1 })
        assert.same({ a = 2, b = 1 }, counts(ring, 3))
    end)

    it("takes fractions, as they are written", function()
        assert.same({ a = 1, b = 2, c = 7 }, counts(vnswrr:new({ a = 0.1, b = 0.2, c = 0.7 }), 10))
        assert.same({ a = 3, b = 4 }, counts(vnswrr:new({ a = 1.5, b = 2 }), 7))
        local ring = vnswrr:new({ a = 0.1, b = 0.3 })
        ring:incr("a", 0.2)
        assert.same({ a = 1, b = 1 }, counts(ring, 2))
    end)

    it("takes other fractions to six decimals, and never for nothing", function()
        assert.same({ a = 333333, b = 666667 }, counts(vnswrr:new({ a = 1 / 3, b = 2 / 3 }), 1000000))
        assert.same({ a = 1, b = 1 }, counts(vnswrr:new({ a = 1e-9, b = 1e-12 }), 2))
        assert.same({ a = 1 }, counts(vnswrr:new({ a = 2 ^ 31 - 0.5 }), 1))
    end)

    it("takes out what is set to no weight, and leaves alone what it does not know", function()
        local ring = vnswrr:new({ a = 1, b = 1 })
        ring:set("b")
        ring:decr("c")
        ring:delete("d")
        assert.same({ a = 2 }, counts(ring, 2))
    end)

    it("answers nil while all weights are 0", function()
        local ring = vnswrr:new({ a = 0, b = "0" }, true)
        for _ = 1, 4 do
            assert.is_nil(ring:find())
        end
    end)
end)
