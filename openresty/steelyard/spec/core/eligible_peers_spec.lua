local eligible_peers = require "steelyard.core.eligible_peers"

--- Peers by "id:state", such as "a:up b:backup".
local function peers_of(text)
    local peers = {}
    for id, state in string.gmatch(text, "(%w+):(%w+)") do
        peers[#peers + 1] = { id = id, state = state }
    end
    return peers
end


local function ids(peers)
    local names = {}
    for i, peer in ipairs(peers) do
        names[i] = peer.id
    end
    return table.concat(names, " ")
end


--- Return the ids of the eligible peers, the ids of the reserve, and whether health is ignored.
local function chosen(text, sick, threshold)
    local unhealthy = {}
    for id in string.gmatch(sick, "%w+") do
        unhealthy[id] = {}
    end
    local eligible, reserve, fail_open = eligible_peers.of(peers_of(text), unhealthy, threshold or 0)
    return { ids(eligible), ids(reserve), fail_open }
end


describe("eligible peers", function()
    it("are those that are up, with the backups in reserve", function()
        assert.same({ "a d", "e", false }, chosen("a:up b:drain c:down d:up e:backup", ""))
    end)

    it("are without the unhealthy ones", function()
        assert.same({ "b", "d", false }, chosen("a:up b:up c:backup d:backup", "a c"))
    end)

    it("are the healthy backups when no other is left", function()
        assert.same({ "b", "", false }, chosen("a:up b:backup c:backup", "a c"))
        assert.same({ "b", "", false }, chosen("a:drain b:backup", ""))
    end)

    it("are all that are up when none is healthy: fail open", function()
        assert.same({ "a b", "c", true }, chosen("a:up b:up c:backup d:drain", "a b c d"))
        assert.same({ "b", "", true }, chosen("a:drain b:backup", "a b"))
    end)

    it("are all that are up when fewer are healthy than the panic threshold: fail open", function()
        assert.same({ "a", "", false }, chosen("a:up b:up c:up", "b c", 0.3))
        assert.same({ "a b c", "", true }, chosen("a:up b:up c:up", "b c", 0.5))
        assert.same({ "a b", "d c", true }, chosen("a:up b:up c:backup d:backup", "a b c", 0.5))
    end)

    it("are none when none may be used", function()
        assert.same({ "", "", false }, chosen("a:drain b:down", "a"))
    end)
end)
