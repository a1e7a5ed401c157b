local address = require "steelyard.core.address"
local json = require "steelyard.core.json"

local file = assert(io.open("docs/contract/addresses.json") or io.open("../docs/contract/addresses.json"))
local examples = assert(json.decode(file:read("*a")))
file:close()


describe("an address", function()
    for text, expected in pairs({
        ["10.0.0.11:80"] = { "10.0.0.11", 80 },
        ["[::1]:1"] = { "[::1]", 1 },
        ["[1:2:3:4:5:6:7:8]:80"] = { "[1:2:3:4:5:6:7:8]", 80 },
        ["[::ffff:10.0.0.1]:0080"] = { "10.0.0.1", 80 },
        ["[::2]:80"] = { "[::2]", 80 },
    }) do
        it("is split: " .. text, function()
            assert.same(expected, { address.split(text) })
        end)
    end

    for _, example in ipairs(examples.accepted) do
        it("of docs/contract is one in every spelling: " .. example.about, function()
            local expected = example.nginx or example.canonical
            for _, text in ipairs({ example.typed, example.canonical, expected }) do
                assert.equal(expected, address.canonical(text))
            end
        end)
    end

    for _, example in ipairs(examples.names) do
        it("is no name: " .. example.typed, function()
            assert.is_nil(address.canonical(example.typed))
        end)
    end

    for _, text in ipairs(examples.refused) do
        it("of docs/contract is refused: " .. text, function()
            assert.is_nil(address.canonical(text))
        end)
    end

    for _, text in ipairs({
        "", ":", ":80", "10.0.0.11", "10.0.0.11:", "10.0.0.11:0", "10.0.0.11:65536", "10.0.0.11:+80",
        "10.0.0.11:080000", "10.0.0:80", "10.0.0.0.1:80", "1.2.3.256:80", "01.2.3.4:80", "1.2.3.4 :80",
        "server-1:80", "fd00::13:80", "[fd00::13]", "[fd00::13:80", "[10.0.0.1]:80", "[1:2:3:4:5:6:7]:80",
        "[1:2:3:4:5:6:7:8:9]:80", "[1::2::3]:80", "[:::]:80", "[12345::]:80", "[g::]:80", "[1:2:3:4:5:6:7::8]:80",
        "[::1.2.3.4:5]:80", "[1.2.3.4::]:80", "[fe80::1%eth0]:80", "[:1]:80", "10.0.0.11\0:80", "[::1\0]:80",
    }) do
        it("is refused: " .. text, function()
            local ip, why = address.split(text)
            assert.is_nil(ip)
            assert.is_string(why)
        end)
    end
end)


describe("the status page", function()
    it("is for loopback and sockets", function()
        assert.is_true(address.allows("127.0.0.1", {}))
        assert.is_true(address.allows("127.9.9.9", {}))
        assert.is_true(address.allows("::1", {}))
        assert.is_true(address.allows("unix:", {}))
        for _, client in ipairs({ "127.0.0.1", "::1", "unix:" }) do
            assert.is_false(address.allows(client, { "10.0.0.0/8" }, true)) -- through a proxy
        end
        assert.is_true(address.allows("10.0.0.1", { "10.0.0.0/8" }, true))
        assert.is_true(address.allows("127.0.0.1", { "127.0.0.1" }, true))
    end)

    it("is for nobody else", function()
        assert.is_false(address.allows("128.0.0.1", {}))
        assert.is_false(address.allows("10.0.0.1", {}))
        assert.is_false(address.allows("::2", {}))
        assert.is_false(address.allows("nonsense", {}))
    end)

    it("is for the blocks in the option", function()
        local blocks = { "10.1.2.0/23", "fd00::/10", "192.168.0.7", "0.0.0.0/32" }
        assert.is_true(address.allows("10.1.3.255", blocks))
        assert.is_false(address.allows("10.1.4.0", blocks))
        assert.is_true(address.allows("fd3f::1", blocks))
        assert.is_false(address.allows("fc00::1", { "fd00::/16" }))
        assert.is_true(address.allows("192.168.0.7", blocks))
        assert.is_true(address.allows("8.8.8.8", { "0.0.0.0/0" }))
    end)

    it("knows a wrong block", function()
        assert.is_nil(address.network("10.0.0.0/33"))
        assert.is_nil(address.network("everyone"))
        assert.is_nil(address.network("10.0.0/8"))
    end)
end)


describe("the key of one end of a connection", function()
    it("is the port and the address as sockets have them", function()
        assert.equal("\0\80\10\0\0\11", address.key_of("10.0.0.11", "80"))
        assert.equal("\31\144\253" .. string.rep("\0", 14) .. "\19", address.key_of("[fd00::13]", "8080"))
    end)

    it("is one for an IPv4 address and the same within IPv6", function()
        assert.equal(address.key_of("10.0.0.11", "80"), address.key_of("::ffff:10.0.0.11", "80"))
    end)

    it("does not exist for a text that is no address", function()
        assert.is_nil(address.key_of("unix:/run/web", "80"))
    end)
end)
