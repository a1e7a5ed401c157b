local cell_totals = require "steelyard.core.cell_totals"
local ffi = require "ffi"
local no_pause = require("resty.vnswrr").no_pause
local open_requests = require "steelyard.core.open_requests"
local peer_cells = require "steelyard.core.peer_cells"
local peer_stats = require "steelyard.core.peer_stats"
local shared_counters = require "steelyard.io.shared_counters"

local SERVERS = 120 -- more than are noted one by one
local FIELDS = { "completed", "failed", "latency_ms", "untimed" }

-- Reads of a run beside those of counters: its last totals, their order, and how often leaving workers have counted.
local FEW = 3

-- Counters of a server, and the index of its cell.
local OF_A_SERVER = #cell_totals.FIELDS + 1


--- A shared dict with room for `room` keys, which counts how often it is read.
local function dict_of(room)
    local dict = { kept = {}, reads = 0, room = room }
    local function is_full(self, key)
        local keys = 0
        for _ in pairs(self.kept) do
            keys = keys + 1
        end
        return self.kept[key] == nil and keys >= self.room
    end
    function dict:get(key)
        self.reads = self.reads + 1
        return self.kept[key]
    end
    function dict:set(key, value)
        if is_full(self, key) then
            return false, "no memory"
        end
        self.kept[key] = value
        return true
    end
    function dict:delete(key)
        self.kept[key] = nil
    end
    function dict:incr(key, by, init)
        if not self.kept[key] and (not init or is_full(self, key)) then
            return nil, "no memory"
        end
        self.kept[key] = (self.kept[key] or init) + by
        return self.kept[key]
    end
    dict.bulk = dict
    return dict
end


describe("the counts of all workers since the last report", function()
    local dict, peers, cells, memory

    local function new_memory()
        return ffi.new("uint8_t[?]", cell_totals.bytes(SERVERS))
    end

    --- A worker's counters and requests. Without a memory it shares nothing with the others but the dict.
    local function worker(of_memory)
        local requests = open_requests.new(peer_stats.new(peer_stats.local_memory(SERVERS + 1), 1, SERVERS + 1, 0, 0))
        local counters = shared_counters.new(dict, of_memory and cell_totals.new(of_memory, cells))
        counters:enter()
        return { requests = requests, counters = counters }
    end

    local function flush(one)
        one.counters:flush(one.requests, {}, no_pause)
    end

    --- Count a completed request of 5 ms.
    local function complete(one, i)
        one.requests:count(peers[i].cell, peers[i].address, "completed", 5)
    end

    --- Return the tries completed at each server since the last call, by their index; and the reads of the dict.
    local function since_last(one, fields)
        fields = fields or FIELDS
        local reads = dict.reads
        local now, before = one.counters:since_last("reported/web", peers, fields, no_pause)
        local completed = {}
        for i = 1, #peers do
            local at = #fields * (i - 1)
            local tries = now[at] - (before and before[at] or 0)
            completed[i] = tries ~= 0 and tries or nil
        end
        return completed, dict.reads - reads
    end

    before_each(function()
        dict, memory, cells, peers = dict_of(math.huge), new_memory(), peer_cells.new(nil, SERVERS), {}
        for i = 1, SERVERS do
            local address = "127.0.0.1:" .. i
            peers[i] = { address = address, cell = cells:take(address, 1) }
            dict:set("cell/" .. address, peers[i].cell)
        end
    end)

    it("are read from the dict once, and then from the workers' memory", function()
        local reporting, other = worker(memory), worker(memory)
        assert.same({}, (since_last(reporting)))
        for run = 1, 3 do
            complete(other, run)
            flush(other)
            local completed, reads = since_last(reporting)
            assert.same({ [run] = 1 }, completed)
            assert.is_true(reads <= FEW, reads)
        end
        local completed, reads = since_last(other) -- that worker reports now
        assert.same({}, completed)
        assert.is_true(reads <= FEW, reads)
    end)

    it("have what leaving workers of an earlier memory count, for a read of each server with counts", function()
        local reporting, earlier, third = worker(memory), worker(new_memory()), worker(new_memory())
        since_last(reporting)
        earlier.counters:leave()
        third.counters:leave()
        for _ = 1, 2 do
            complete(earlier, 7)
            complete(third, 8)
            flush(earlier)
            flush(third)
            flush(third) -- nothing
            local completed, reads = since_last(reporting)
            assert.same({ [7] = 1, [8] = 1 }, completed)
            assert.is_true(reads <= FEW + 2 * (OF_A_SERVER + 1), reads)
            assert.is_true(select(2, since_last(reporting)) <= FEW)
        end
    end)

    it("have what leaving workers count for many servers, and often", function()
        local reporting, earlier = worker(memory), worker(new_memory())
        since_last(reporting)
        earlier.counters:leave()
        for i = 1, SERVERS do
            complete(earlier, i)
        end
        complete(earlier, 1)
        flush(earlier)
        local completed = since_last(reporting)
        assert.same({ 2, 1, SERVERS }, { completed[1], completed[2], #completed })
        for _ = 1, SERVERS + 1 do
            complete(earlier, 7)
            flush(earlier)
        end
        assert.same({ [7] = SERVERS + 1 }, (since_last(reporting)))
    end)

    it("have what a leaving worker counts whose note found no room", function()
        local reporting, earlier = worker(memory), worker(new_memory())
        since_last(reporting)
        earlier.counters:leave()
        complete(earlier, 7)
        flush(earlier)
        dict:delete("left_counts/1")
        assert.same({ [7] = 1 }, (since_last(reporting)))
    end)

    it("have what a leaving worker counts while the dict is full", function()
        local reporting, earlier = worker(memory), worker(new_memory())
        dict:set("picks/" .. peers[7].address, 0)
        dict:set("completed/" .. peers[7].address, 0)
        dict:set("latency_ms/" .. peers[7].address, 0)
        since_last(reporting)
        earlier.counters:leave()
        dict.room = 0
        complete(earlier, 7)
        flush(earlier)
        assert.same({ [7] = 1 }, (since_last(reporting)))
    end)

    it("are read again from a dict that is a new one", function()
        local reporting, earlier = worker(memory), worker(new_memory())
        earlier.counters:leave()
        complete(earlier, 7)
        flush(earlier)
        since_last(reporting)
        dict.kept.left_counts = nil
        dict:incr("completed/" .. peers[7].address, 1)
        assert.same({ [7] = 1 }, (since_last(reporting)))
        assert.is_true(select(2, since_last(reporting)) <= FEW)
    end)

    it("go on after a reload, in a memory that is empty", function()
        local one = worker(memory)
        since_last(one)
        complete(one, 3)
        flush(one)
        assert.same({ [3] = 1 }, (since_last(worker(new_memory()))))
    end)

    it("go on when the worker that reported is killed, and its counts stay", function()
        local killed = worker(memory)
        complete(killed, 3)
        flush(killed)
        since_last(killed)
        complete(killed, 4)
        flush(killed)
        assert.same({ [4] = 1 }, (since_last(worker(memory))))
    end)

    it("are the same without a shared memory, or without cells", function()
        local one, other = worker(nil), worker(nil)
        since_last(one)
        complete(other, 5)
        flush(other)
        assert.same({ [5] = 1 }, (since_last(one)))
        local reporting = worker(memory)
        local cell = peers[6].cell
        peers[6].cell = peer_cells.NONE
        complete({ requests = other.requests }, 7)
        flush(other)
        dict:incr("completed/" .. peers[6].address, 1, 0)
        assert.same({ [6] = 1, [7] = 1 }, (since_last(reporting)))
        peers[6].cell = cell
    end)

    it("begin at 0 for a server that was forgotten and is back in its cell", function()
        local one = worker(memory)
        complete(one, 5)
        complete(one, 5)
        flush(one)
        since_last(one)
        shared_counters.forget(dict, peers[5].address, one.counters.totals, peers[5].cell)
        complete(one, 5)
        flush(one)
        local now = one.counters:since_last("reported/web", peers, FIELDS, no_pause)
        assert.equal(1, now[#FIELDS * 4])
        assert.equal(5, now[#FIELDS * 4 + 2])
    end)

    it("of an upstream's own failures are read from the dict", function()
        local one = worker(memory)
        local own = shared_counters.own_field("web", "own_failed")
        local fields = { own, "completed" }
        since_last(one, fields)
        one.counters:flush_own("web", { own_failed = { [peers[4].address] = 2 } })
        assert.same({ [4] = 2 }, (since_last(one, fields)))
    end)

    it("leave out those that the dict had no room for", function()
        local one = worker(memory)
        since_last(one)
        dict.incr = function() return nil, "no memory" end
        complete(one, 5)
        flush(one)
        assert.same({}, (since_last(one)))
    end)
end)
