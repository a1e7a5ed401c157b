local cell_totals = require "steelyard.core.cell_totals"
local ffi = require "ffi"
local peer_cells = require "steelyard.core.peer_cells"

local CELLS, A, B = 100, "127.0.0.1:80", "127.0.0.1:800"
local COMPLETED = 2


describe("the copies of counters", function()
    local cells, totals, cell, reads

    local function open()
        return cell_totals.new(totals and totals.memory or ffi.new("uint8_t[?]", cell_totals.bytes(CELLS)), cells)
    end

    --- The counters in the dict: each has this value.
    local function counters(value)
        return function()
            reads = reads + 1
            return value
        end
    end

    local function completed(now)
        local row = totals:row(cell, A, now)
        return row and totals.doubles[row + COMPLETED - 1]
    end

    before_each(function()
        totals, reads = nil, 0
        cells = peer_cells.new(nil, CELLS)
        cell = cells:take(A, 1)
        totals = open()
    end)

    it("count once they were read", function()
        totals:note(cell, A, COMPLETED, 3)
        assert.is_nil(completed(10))
        totals:read(cell, A, counters(7), 10)
        assert.equal(7, completed(10))
        assert.equal(#cell_totals.FIELDS, reads)
    end)

    it("follow the counters by the sums that workers note, in any order", function()
        totals:read(cell, A, counters(7), 10)
        open():note(cell, A, COMPLETED, 9) -- another worker
        totals:note(cell, A, COMPLETED, 8)
        assert.equal(9, completed(11))
    end)

    it("keep a sum that another worker notes while they are read", function()
        totals:read(cell, A, counters(7), 10)
        totals:read(cell, A, function()
            open():note(cell, A, COMPLETED, 9)
            return 8
        end, 11)
        assert.equal(9, completed(11))
        totals:read(cell, A, counters(8), 12) -- the dict lost its counter meanwhile
        assert.equal(8, completed(12))
    end)

    it("are read again after a while, not all at once", function()
        local ages = {}
        for one = 1, CELLS do
            local address = "127.0.0.2:" .. one
            cells:take(address, 1)
            if cells:is_owner(one, address) then
                totals:read(one, address, counters(0), 10)
                local age = 0
                while totals:row(one, address, 10 + age) do
                    age = age + 1
                end
                ages[age] = (ages[age] or 0) + 1
            end
        end
        for age, number in pairs(ages) do
            assert.is_true(age >= cell_totals.FRESH_S and age < 2 * cell_totals.FRESH_S, age)
            assert.is_true(number <= CELLS / cell_totals.FRESH_S)
        end
    end)

    it("are made up for when a worker was killed before it noted a sum", function()
        totals:read(cell, A, counters(7), 10)
        local later = 10 + 2 * cell_totals.FRESH_S
        assert.is_nil(completed(later))
        totals:read(cell, A, counters(8), later)
        assert.equal(8, completed(later))
    end)

    it("do not count once they are outdated, in any worker", function()
        for _, outdate in ipairs({ function() open():outdate(cell, A) end, function() open():outdate_all(12) end }) do
            totals:read(cell, A, counters(7), 11)
            totals:outdate(cell, B)
            assert.equal(7, completed(12))
            outdate()
            assert.is_nil(completed(12))
            totals:read(cell, A, counters(8), 12)
            assert.equal(8, completed(12))
            totals:forget(cell)
        end
    end)

    it("note for all workers how many counts of another memory are known", function()
        assert.equal(0, totals:known())
        totals:know(3)
        assert.equal(3, open():known())
    end)

    it("are of the cell's owner alone", function()
        totals:read(cell, A, counters(7), 10)
        totals:note(cell, B, COMPLETED, 100)
        assert.is_nil(totals:read(cell, B, counters(100), 10))
        assert.is_nil(totals:row(cell, B, 10))
        assert.is_nil(totals:row(cell, "127.0.0.1:8", 10))
        assert.is_nil(totals:row(peer_cells.NONE, A, 10))
        assert.equal(7, completed(10))
    end)

    it("begin anew when they are forgotten, and may then be less", function()
        totals:read(cell, A, counters(7), 10)
        totals:forget(cell)
        totals:note(cell, A, COMPLETED, 1)
        assert.is_nil(completed(10))
        totals:read(cell, A, counters(1), 10)
        assert.equal(1, completed(10))
    end)
end)
