--- The memory that nginx's workers share for peer stats and latency histograms, and which cell of it a server has.
--
-- An anonymous shared mapping, without a lock and without a copy, made in
-- init_by_lua: the workers inherit it when nginx forks them. A reload runs
-- init_by_lua again and makes a new one; the workers of before keep theirs until
-- they are gone. Nothing is left on disk. Without init_by_lua each worker has stats
-- of its own.
--
-- Which cell is whose stands in the same memory (core/peer_cells), and cells are given out under a
-- lock on a file that exists in memory only: the system takes it from a worker that
-- dies. Where to look is in the shared dict:
--
--   cell/<address>   the cell that the address was given last
--
-- A worker without init_by_lua looks in a table of its own.

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

-- An upstream of 50,000 servers, and 15,000 more that came and went within half a minute.
local CELLS = 65536

-- Longer than a server is away that is replaced or repaired.
local FORGET_AFTER_S = 3600

local _M = {}


--- Map so many zeroed bytes; nil and the reason when the system has none. Each
-- page is taken only when it is first used: for a shared mapping, reading is use, too.
function _M.map(bytes)
    local address = ffi.C.mmap(nil, bytes, PROT_READ_WRITE, MAP_SHARED_ANONYMOUS, -1, 0)
    if ffi.cast("intptr_t", address) == -1 then
        return nil, "mmap of " .. bytes .. " bytes failed, errno " .. ffi.errno()
    end
    return ffi.gc(ffi.cast("uint8_t *", address), function(memory) ffi.C.munmap(memory, bytes) end)
end


--- A file in memory, to lock; nil and the reason when the system has none.
local function lock_file()
    local fd = ffi.C.memfd_create("steelyard", CLOSE_ON_EXEC)
    if fd == -1 then
        return nil, "memfd_create failed, errno " .. ffi.errno()
    end
    return ffi.gc(ffi.new("int[1]", fd), function(file) ffi.C.close(file[0]) end)
end


-- `shared` has the memory of cells, stats and histograms, and the file; nil, and `problem` says why.
local shared, problem, workers

-- Runs when the module is loaded: in init_by_lua that is before the workers fork.
if ngx.get_phase() == "init" then
    workers = math.max(1, ngx.worker.count())
    local memory = {}
    for name, bytes in pairs({
        cells = peer_cells.bytes(CELLS), stats = peer_stats.bytes(workers, CELLS + 1),
        histograms = latency_histogram.bytes(CELLS + 1), others = others_in_flight.bytes(CELLS + 1),
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


--- Open this worker's cells, its peer stats and the latency histograms (nil where they are not
-- shared); also returns why they are not shared, or nil.
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


--- Open what the workers share of other load balancers' requests; nil where they share nothing.
function _M.open_others()
    return shared and others_in_flight.new(shared.others, CELLS + 1) or nil
end


--- Lock the rows of the cells, or unlock them. A caller holds the lock for some microseconds.
local function lockf(command)
    if shared then
        repeat
            local failed = ffi.C.lockf(shared.file[0], command, 0) ~= 0
        until not failed or ffi.errno() ~= INTERRUPTED
    end
end


local own_index = {} -- address -> cell, where cells are not shared


--- The cell of an address; given out if need be, with nothing left in it.
-- @param memory dict, and the cells, stats and histograms of `open`
-- @param now    by the monotonic clock; the same for all addresses of a table
function _M.cell_of(memory, address, now)
    local dict, cells, key = memory.dict, memory.cells, "cell/" .. address
    lockf(LOCK)
    local last = own_index[address]
    if shared then
        last = dict:get(key)
    end
    local cell, is_new = cells:take(address, now, last)
    if is_new then
        memory.stats:forget(cell)
        if memory.histograms then
            memory.histograms:take_median(cell) -- the latencies of the cell's last server
        end
    end
    if cell ~= peer_cells.NONE and shared then
        dict:set(key, cell) -- for good: it may have been about to be forgotten
    elseif cell ~= peer_cells.NONE then
        own_index[address] = cell
    end
    lockf(UNLOCK)
    return cell
end


--- Forget where an address that nobody serves any more had its cell, after a while: a server that is back before that
-- finds what is still open there.
function _M.forget_cell(dict, address)
    local key = "cell/" .. address
    dict:set(key, dict:get(key), FORGET_AFTER_S)
    own_index[address] = nil
end


return _M
