local board = require "steelyard.core.board"
local ledger = require "steelyard.core.ledger"

local A, B = { id = "a", address = "a:80", cell = 0 }, { id = "b", address = "b:80", cell = 1 }


local function new_board()
    return board.new(board.local_memory(2), 1, 2, 0)
end


local function drained(book)
    local seen = {}
    local in_flight = book:drain(function(address, ...)
        seen[address] = { ... }
    end)
    return seen, in_flight
end


describe("the ledger", function()
    it("holds a request in flight from its pick to its end", function()
        local book = ledger.new(new_board())
        book:picked(book:entry(1, 0), A)
        assert.same({ ["a:80"] = 1 }, select(2, drained(book)))
        book:count(0, "a:80", "completed", 12)
        book:close(1)
        local seen, in_flight = drained(book)
        assert.same({ ["a:80"] = { 0, 1, 0, 12 } }, seen)
        assert.same({}, in_flight)
    end)

    it("lets go of the first server when the request goes to a second", function()
        local book = ledger.new(new_board())
        local entry = book:entry(1, 0)
        book:picked(entry, A)
        book:picked(entry, B)
        assert.same({ ["b:80"] = 1 }, select(2, drained(book)))
        assert.same({ "a", "b" }, { entry[1].id, entry[2].id })
    end)

    it("lets go of the server when no other is found", function()
        local book = ledger.new(new_board())
        local entry = book:entry(1, 0)
        book:picked(entry, A)
        book:none(entry, "every server was tried")
        book:close(1)
        assert.same({}, select(2, drained(book)))
    end)

    it("gives the same entry to all phases of a request", function()
        local book = ledger.new(new_board())
        assert.equal(book:entry(1, 5), book:entry(1, 5))
    end)

    it("releases what a request left behind whose key another one has now", function()
        local book = ledger.new(new_board())
        book:picked(book:entry(1, 5), A)
        book:picked(book:entry(1, 6), B)
        assert.same({ ["b:80"] = 1 }, select(2, drained(book)))
        assert.equal(1, book:entry(1, 6).n)
    end)

    it("uses a closed request's entry again, empty", function()
        local book = ledger.new(new_board())
        local entry = book:entry(1, 0)
        entry.upstream = "web"
        book:picked(entry, A)
        book:none(entry, "why")
        book:close(1)
        local again = book:entry(2, 0)
        assert.equal(entry, again)
        assert.same({ n = 0, from = 1, started = 0 }, again)
    end)

    it("counts an aborted try as neither completed nor failed", function()
        local book = ledger.new(new_board())
        book:count(0, "a:80", "aborted", 0)
        assert.same({}, (drained(book)))
    end)

    it("hands each count out once", function()
        local book = ledger.new(new_board())
        book:count(0, "a:80", "failed", 0)
        assert.same({ ["a:80"] = { 0, 0, 1, 0 } }, (drained(book)))
        assert.same({}, (drained(book)))
    end)

    it("forgets an address that is no longer used, but not one in flight", function()
        local book = ledger.new(new_board())
        book:count(0, "a:80", "failed", 0)
        book:picked(book:entry(1, 0), B)
        for _ = 1, 100 do
            drained(book)
        end
        assert.same({ [1] = "b:80" }, book.addresses)
        assert.same({ ["b:80"] = 1 }, select(2, drained(book)))
    end)

    it("does not mind closing what was never opened", function()
        ledger.new(new_board()):close(99)
    end)
end)
