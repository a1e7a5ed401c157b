--- The memory that nginx's workers share for peer stats, latency histograms and copies of counters, and the cell of
-- each server in it.
--
-- It is an anonymous shared mapping, without a lock and without a copy, made in init_by_lua: the workers inherit it
-- when nginx forks them. A reload runs init_by_lua again and makes a new mapping; the earlier workers keep theirs
-- until they are gone. Nothing is left on disk. Without init_by_lua each worker has stats of its own.
--
-- The owners of cells are in the same memory (core/peer_cells). Cells are given out under a lock on a file in memory:
-- the system takes the lock from a worker that dies. The shared dict is the index:
--
--   cell/<address>   the last cell of the address
--
-- A worker without init_by_lua has an index of its own.

local cell_totals = require "steelyard.core.cell_totals"
local ffi = require "ffi"
local latency_histogram = require "steelyard.core.latency_histogram"
local others_in_flight = require "steelyard.core.others_in_flight"
local peer_cells = require "steelyard.core.peer_cells"
local peer_stats = require "steelyard.core.peer_stats"

ffi.cdef[[
void *mmap(void *addr, size_t length, int prot, int flags, int fd, long offset);
int munmap(void *addr, size_t length);
int memfd_create(const char *name, unsigned int flags);
int lockf(int fd, int command, long length);
int close(int fd);
]]

-- Linux's numbers, the same on x86-64 and arm64.
local PROT_READ_WRITE, MAP_SHARED_ANONYMOUS = 3, 0x21
local CLOSE_ON_EXEC, UNLOCK, LOCK, INTERRUPTED = 1, 0, 1, 4

-- Enough for an upstream of 50,000 servers, and 15,000 servers more that come and go within half a minute.
local CELLS = 65536

-- Longer than it takes to replace or repair a server.
local FORGET_AFTER_S = 3600

local _M = {}


--- Map `bytes` zeroed bytes; nil and the reason if the system has none. A page takes memory from its first use on; for
-- a shared mapping, reading is use, too.
function _M.map(bytes)
    local address = ffi.C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0)
    if ffi.cast("intptr_t", address) == -1 then
        return nil, "mmap of " .. bytes .. " bytes failed, errno " .. ffi.errno()
    end
    return ffi.gc(ffi.cast("uint8_t *", address), function(memory) ffi.C.munmap(memory, bytes) end)
end


--- Make a file in memory, to lock; nil and the reason if the system has none.
local function lock_file()
    local fd = ffi.C.memfd_create("steelyard", CLOSE_ON_EXEC)
    if fd == -1 then
        return nil, "memfd_create failed, errno " .. ffi.errno()
    end
    return ffi.gc(ffi.new("int[1]", fd), function(file) ffi.C.close(file[0]) end)
end


-- `shared` has the memory of each of them, and the file. If it is nil, `problem` has the reason.
local shared, problem, workers

-- Runs when the module is loaded, in init_by_lua: before the workers fork.
if ngx.get_phase() == "init" then
    workers = math.max(1, ngx.worker.count())
    local memory = {}
    for name, bytes in pairs({
        cells = peer_cells.bytes(CELLS), stats = peer_stats.bytes(workers, CELLS + 1),
        histograms = latency_histogram.bytes(CELLS + 1), others = others_in_flight.bytes(CELLS + 1),
        totals = cell_totals.bytes(CELLS),
    }) do
        memory[name], problem = _M.map(bytes)
        if problem then
            break
        end
    end
    if not problem then
        memory.file, problem = lock_file()
    end
    shared = not problem and memory or nil
else
    problem = 'nginx.conf has no init_by_lua_block { require "steelyard" }'
end


--- Open this worker's cells, its peer stats and the latency histograms (nil if they are not shared). Also return why
-- they are not shared, or nil.
function _M.open(worker_id)
    local memory = shared or {}
    local cells = peer_cells.new(memory.cells, CELLS)
    if not shared then
        local stats = peer_stats.new(peer_stats.local_memory(CELLS + 1), 1, CELLS + 1, 0, 0)
        return cells, stats, nil, problem
    end
    local stats = peer_stats.new(memory.stats, workers, CELLS + 1, worker_id, cells:highest())
    return cells, stats, latency_histogram.new(memory.histograms)
end


--- Open the shared memory of other load balancers' requests; nil if the workers share nothing.
function _M.open_others()
    return shared and others_in_flight.new(shared.others, CELLS + 1) or nil
end


--- Open the copies of counters; nil if the workers share nothing.
-- @param cells core/peer_cells
function _M.open_totals(cells)
    return shared and cell_totals.new(shared.totals, cells) or nil
end


--- Lock the rows of the cells, or unlock them. A caller holds the lock for some microseconds.
local function lockf(command)
    if shared then
        repeat
            local failed = ffi.C.lockf(shared.file[0], command, 0) ~= 0
        until not failed or ffi.errno() ~= INTERRUPTED
    end
end


local own_index = {} -- address -> cell, if cells are not shared


--- The cell of an address. A new address gets an empty one.
-- @param memory dict, the cells, stats and histograms of `open`, and the totals of `open_totals`
-- @param now    by the monotonic clock; the same for all addresses of a table
function _M.cell_of(memory, address, now)
    local dict, cells, key = memory.dict, memory.cells, "cell/" .. address
    lockf(LOCK)
    local last
    if shared then
        last = dict:get(key)
    else
        last = own_index[address]
    end
    local cell, is_new = cells:take(address, now, last)
    if is_new then
        memory.stats:forget(cell)
        if memory.totals then
            memory.totals:forget(cell)
        end
        if memory.histograms then
            memory.histograms:take_median(cell) -- the latencies of the cell's last server
        end
    end
    if cell ~= peer_cells.NONE and shared then
        dict:set(key, cell) -- without a TTL: forget_cell() may have set one
    elseif cell ~= peer_cells.NONE then
        own_index[address] = cell
    end
    lockf(UNLOCK)
    return cell
end


--- Forget the cell of an address that is no longer served, after FORGET_AFTER_S. A server that is back earlier finds
-- its open requests there. Return the cell, if the workers share it.
function _M.forget_cell(dict, address)
    local key = "cell/" .. address
    local cell = dict:get(key)
    dict:set(key, cell, FORGET_AFTER_S)
    own_index[address] = nil
    return cell
end


return _M
