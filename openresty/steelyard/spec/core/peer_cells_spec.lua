local ffi = require "ffi"
local peer_cells = require "steelyard.core.peer_cells"

local NONE, LATER = peer_cells.NONE, peer_cells.FREE_AFTER_S + 1

-- A time after the start of a machine.
local T = 1000


--- The cells of two workers in one memory.
local function two(cells)
    local memory = ffi.new("uint8_t[?]", peer_cells.bytes(cells))
    return peer_cells.new(memory, cells), peer_cells.new(memory, cells)
end


describe("the peer cells", function()
    it("give the lowest ones first, and an address the same in every worker", function()
        local first, second = two(3)
        assert.equal(1, first:take("a:80", T))
        assert.equal(2, second:take("b:80", T))
        assert.same({ 1, false }, { second:take("a:80", T, 1) })
        assert.equal(2, first:highest())
        assert.equal(2, first:in_use(T))
    end)

    it("never give two addresses that are in use one cell, however many came and went", function()
        local first, second = two(10)
        local oldest = first:take("oldest:80", T)
        for n = 1, 1000 do
            local now = T + n * LATER / 4
            first:keep(oldest, now)
            first:due(now)
            second:due(now)
            assert.is_not.equal(oldest, (second:take("guest-" .. n .. ":80", now)))
            assert.equal("oldest:80", second:owner(oldest))
        end
        assert.equal(5, second:highest()) -- itself, and four cells that were not idle for long enough
    end)

    it("say that a cell was another's", function()
        local first = two(1)
        assert.same({ 1, true }, { first:take("a:80", T) })
        assert.same({ 1, true }, { first:take("b:80", T + LATER) })
        assert.equal("b:80", first:owner(1))
    end)

    it("give an address that was away for long its cell again, as a new one, unless it is another's", function()
        local first, second = two(2)
        first:take("a:80", T)
        second:take("b:80", T)
        assert.same({ 2, true }, { first:take("b:80", T + LATER, 2) })
        assert.same({ 1, true }, { second:take("c:80", T + LATER, 2) })
    end)

    it("have none for an address when all are in use, and one when one is free again", function()
        local first, second = two(1)
        first:take("a:80", T)
        assert.same({ NONE, false }, { second:take("b:80", T + 1) })
        assert.same({ NONE, false }, { second:take("b:80", T + 1, NONE) })
        assert.equal(1, second:take("b:80", T + LATER))
    end)

    it("are not lost to the first worker that looks after all were stopped", function()
        local first, second = two(2)
        first:due(T)
        second:due(T)
        first:take("a:80", T)
        assert.equal(2, second:take("b:80", T + 10 * LATER))
        assert.equal("a:80", first:owner(1))
    end)

    it("know the longest address", function()
        local longest = "[fd00:1111:2222:3333:4444:5555:6666:7777]:65535"
        local first = two(1)
        first:take(longest, T)
        assert.equal(longest, first:owner(1))
    end)
end)
